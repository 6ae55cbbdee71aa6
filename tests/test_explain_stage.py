"""The runtime of a program's text: whatever the text does, measuring it comes to an end."""

import numpy as np
import pytest

from hvil.analysis.explain.text import TextProgram
from hvil.analysis.explain.vocabulary import Vocabulary
from hvil.data.tasks import Quantity

WORDS = Vocabulary(
    quantities=(Quantity("height", "observation[..., 0]", "number"),), actions=("go",), procedures=("root",)
)


@pytest.mark.parametrize(
    ("body", "agrees"),
    [
        ("go()", True),
        ("pass", False),
        ("while height > -1:\n        pass", False),
        ("root()", False),
        ("go()\n    root()", False),
    ],
)
def test_a_text_that_never_ends_does_not_agree(body: str, agrees: bool) -> None:
    program = TextProgram(f"def root():\n    {body}\n", WORDS, "root")
    go, terminate = 0, 1
    result = program.agreement(np.zeros((2, 1)), np.array([0, 2]), np.array([go, terminate]))
    assert result.tolist() == [agrees]


def test_a_procedure_that_only_calls_itself_is_stuck_and_the_stage_can_be_used_again() -> None:
    program = TextProgram("def root():\n    if height > 0:\n        root()\n    go()\n", WORDS, "root")
    observations = np.array([[1.0], [0.0], [0.0], [0.0]])
    result = program.agreement(observations, np.array([0, 2, 4]), np.array([0, 1, 0, 1]))
    assert result.tolist() == [False, True]
