"""The Karel length-generalisation figure: trained on short runs of programs A to F, tested on longer ones."""

from hvil.experiments.experiment import Claim, Experiment
from hvil.experiments.figures import karel_models as karel
from hvil.experiments.figures.karel_models import FLAT, LSTM, SEEING_LSTM, THREE_LEVELS, TWO_LEVELS

NO_COUNTER = "HVIL, 6 procedures, no counter"
BETTER = "better generalisation to longer runs than the LSTM, except on C"
ALL_BUT_C = tuple(panel for panel in karel.PANELS if panel != "program C")

EXPERIMENT = Experiment(
    name="karel-length",
    title="Karel: error on longer runs than those trained on",
    panels=karel.PANELS,
    models={**karel.MODELS, NO_COUNTER: {**karel.MODELS[TWO_LEVELS], "frame_inputs": "last"}},
    sizes=(10, 20, 30, 40, 50),
    axis="percentile",
    demos=250,
    runs=10,
    test_traces=100,
    pool=karel.POOL,
    settings=karel.SETTINGS,
    presets=karel.PRESETS,
    claims=(
        Claim(BETTER, "lower", TWO_LEVELS, LSTM, panels=ALL_BUT_C),
        Claim(BETTER, "lower", FLAT, LSTM, panels=ALL_BUT_C),
        Claim(BETTER, "lower", THREE_LEVELS, LSTM, panels=ALL_BUT_C),
        Claim(f"{BETTER} (mean of the programs)", "lower", TWO_LEVELS, LSTM, panels=ALL_BUT_C, pooled=True),
        Claim(f"{BETTER} (mean of the programs)", "lower", TWO_LEVELS, SEEING_LSTM, panels=ALL_BUT_C, pooled=True),
        Claim("on C no better than the LSTM", "not-lower", TWO_LEVELS, LSTM, panels=("program C",)),
        Claim("(ours) a hierarchy generalises better", "lower", TWO_LEVELS, FLAT, pooled=True),
        Claim("(ours) without a counter HVIL generalises better", "lower", NO_COUNTER, TWO_LEVELS, pooled=True),
        Claim("(ours) the same on C", "lower", NO_COUNTER, TWO_LEVELS, panels=("program C",)),
        Claim("(ours) without a counter better than the LSTM, on all", "lower", NO_COUNTER, LSTM, pooled=True),
        Claim("(ours) without a counter better than the LSTM, on all", "lower", NO_COUNTER, SEEING_LSTM, pooled=True),
    ),
    notes=(
        f"{karel.NOTES} Every test trace is longer than every training trace, so all test traces are unseen ones. "
        "Lengths are split at a percentile of the *different* lengths that occur in 10,000 demonstrations. HVIL "
        "without a counter is our addition: its procedures see their last step, but not how many they have taken, a "
        "number that is larger in longer runs than any they were trained on."
    ),
)
