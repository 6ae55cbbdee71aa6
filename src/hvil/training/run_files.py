"""The names of the files in a run directory; `run` says who writes which."""

CONFIG, MODEL, METRICS = "config.json", "model.safetensors", "metrics.jsonl"
EVALUATION, EXPLANATION, REPORT = "evaluation.json", "explanation.json", "report.html"
BASELINES = "baselines.json"
RECIPE, CARD = "run.toml", "README.md"
TRACES, TEST, VALIDATION = "traces.npz", "test.npz", "validation.npz"
"""The traces of a run that came from Python."""
