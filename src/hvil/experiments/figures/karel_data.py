"""The Karel data-efficiency figure: error on programs A to F with 10 to 80 demonstrations."""

from hvil.experiments.experiment import Claim, Experiment
from hvil.experiments.figures import karel_models as karel
from hvil.experiments.figures.karel_models import FLAT, LSTM, SEEING_LSTM, THREE_LEVELS, TWO_LEVELS

HALF = "on some programs, no error with less than half the LSTM's data"
LOWER = "generally lower error than the LSTM"

EXPERIMENT = Experiment(
    name="karel-data",
    title="Karel: error against the number of demonstrations",
    panels=karel.PANELS,
    models=karel.MODELS,
    sizes=(10, 20, 40, 80),
    runs=10,
    test_traces=100,
    pool=karel.POOL,
    settings=karel.SETTINGS,
    presets=karel.PRESETS,
    measures=("error", "error_unseen"),
    claims=(
        Claim(HALF, "half-data", TWO_LEVELS, LSTM, level=0.0, some=True),
        Claim(HALF, "half-data", FLAT, LSTM, level=0.0, some=True),
        Claim(HALF, "half-data", THREE_LEVELS, LSTM, level=0.0, some=True),
        Claim(HALF, "half-data", TWO_LEVELS, SEEING_LSTM, level=0.0, some=True),
        Claim(LOWER, "lower", TWO_LEVELS, LSTM, pooled=True),
        Claim(LOWER, "lower", FLAT, LSTM, pooled=True),
        Claim(LOWER, "lower", THREE_LEVELS, LSTM, pooled=True),
        Claim(LOWER, "lower", TWO_LEVELS, SEEING_LSTM, pooled=True),
        Claim(LOWER, "lower", TWO_LEVELS, LSTM, measure="error_unseen", pooled=True),
        Claim("on A, 31 procedures do worst", "lower", TWO_LEVELS, THREE_LEVELS, panels=("program A",)),
        Claim("on C, 31 procedures do best", "lower", THREE_LEVELS, TWO_LEVELS, panels=("program C",)),
        Claim("(ours) a hierarchy lowers the error", "lower", TWO_LEVELS, FLAT, pooled=True),
    ),
    notes=karel.NOTES,
)
