"""What the two ablations share: HVIL with one part left out or exchanged at a time.

The parts are those that the paper calls necessary and does not measure: the estimator of the gradient, the entropy
term, what a procedure sees of its frame, and a posterior that sees the future. There is no exact start, no restart
and no price of long procedures or of curvature: these would hide what the parts do.
"""

from collections.abc import Mapping
from typing import Any

from hvil.experiments.experiment import Claim
from hvil.experiments.figures.common import TRAINING

BASE = "all parts"
NO_BASELINE, ENTROPY = "Rao–Blackwell, no baseline", "no entropy term"
NO_LAST, NO_COUNTER, NO_FRAME = "last step hidden", "counter hidden", "counter and last step hidden"
PAST = "posterior sees the past only"

QUIET: Mapping[str, Any] = {"model": "hvil", "samples": 2, "baseline": "leave-one-out"}
LOUD: Mapping[str, Any] = {**QUIET, "baseline": "none"}

MODELS: Mapping[str, Mapping[str, Any]] = {
    BASE: QUIET,
    NO_BASELINE: LOUD,
    "analytic": {**QUIET, "estimator": "analytic"},
    "analytic, no baseline": {**LOUD, "estimator": "analytic"},
    "score": {**QUIET, "estimator": "score"},
    "score, no baseline": {**LOUD, "estimator": "score"},
    ENTROPY: {**QUIET, "entropy_weight": 0.0},
    NO_LAST: {**QUIET, "frame_inputs": "counter"},
    NO_COUNTER: {**QUIET, "frame_inputs": "last"},
    NO_FRAME: {**QUIET, "frame_inputs": "none"},
    PAST: {**QUIET, "posterior_sees": "no-future"},
}
"""Two walks of each trace everywhere, so that all variants cost the same."""

CLAIMS = (
    *(
        Claim(
            f"without a baseline, Rao–Blackwell is better than {other}", "lower", NO_BASELINE, f"{other}, no baseline"
        )
        for other in ("analytic", "score")
    ),
    Claim("the entropy term keeps the search from collapsing", "lower", BASE, ENTROPY),
    *(
        Claim(f"(ours) {model} makes it worse", "lower", BASE, model)
        for model in (NO_BASELINE, NO_LAST, NO_COUNTER, NO_FRAME, PAST)
    ),
)

SETTINGS: Mapping[str, Any] = {**TRAINING, "batch_size": 10}

NOTES = (
    "One part of HVIL is left out or exchanged at a time. There is no exact start, no restart, and no price "
    "of long procedures or of curvature: these would hide what the parts do, so errors are higher than those of `hvil "
    "fit`. The weights are those after the last update."
)
