"""What each procedure of a program reads, how it is entered, and what holds when it returns.

A statement about a procedure is reported if it held at every one of its invocations in recorded episodes, and did not
hold at every moment of these episodes anyway.

Letters: R rows (the observations of all episodes together).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from hvil.analysis.explain.evidence import Recording
from hvil.analysis.explain.execution import Runner
from hvil.analysis.explain.facts import Facts, Moments
from hvil.analysis.explain.program import NO_STEP, Comparison, For, If, Literal, Program, While, walk
from hvil.analysis.explain.vocabulary import COUNTER, LAST, LAST_IS, Vocabulary

STUDIED_EPISODES = 300
"""Episodes that statements are tested on: what holds in all of them fails in less than one of a hundred others."""


class Contract(NamedTuple):
    """What can be said of a procedure from outside."""

    reads: tuple[str, ...]
    """The quantities that its conditions and counting loops ask for; its callees' are not among them."""
    entered: tuple[Literal, ...]
    """What held whenever it was called."""
    returns: tuple[Literal, ...]
    """What held whenever it returned."""

    def lines(self, words: Vocabulary) -> list[str]:
        """As comments, one a line; what there is nothing to say about is left out."""
        parts = [
            ("reads", ", ".join(self.reads)),
            ("entered with", " and ".join(map(words.literal_text, self.entered))),
            ("returns with", " and ".join(map(words.literal_text, self.returns))),
        ]
        return [f"# {word} {text}" for word, text in parts if text]


def contracts(
    program: Program, printed: Program, words: Vocabulary, recording: Recording, facts: Facts
) -> dict[int, Contract]:
    """The contract of each procedure, from the episodes on which the program does what was recorded.

    Args:
        program: what is run; it has no `for` loops.
        printed: the same program as it is printed.
        words: its vocabulary.
        recording: episodes of the policy.
        facts: of the recording's observations.
    """
    runner = Runner(program, facts)
    entries: dict[int, list[int]] = {procedure: [] for procedure in program.blocks}
    exits: dict[int, list[int]] = {procedure: [] for procedure in program.blocks}
    seen: list[Int[np.ndarray, "rows"]] = []
    actions = recording.emitted.tolist()
    for i in range(min(len(recording), STUDIED_EPISODES)):
        first, end = recording.row_offsets[i : i + 2].tolist()
        visits = runner.visits(first, actions[first:end])
        if visits is None:
            continue
        seen.append(np.arange(first, end))
        for procedure, entry, exit_ in visits:
            entries[procedure].append(entry)
            exits[procedure].append(exit_)
    if not seen:
        return {procedure: Contract(reads(printed, procedure, words), (), ()) for procedure in program.blocks}
    facts_at = {part: _truth(part, facts, len(recording.observations)) for part in _literals(words)}
    everywhere = np.concatenate(seen)
    telling = {part: truth for part, truth in facts_at.items() if not truth[everywhere].all()}
    return {
        procedure: Contract(
            reads=reads(printed, procedure, words),
            entered=_always(telling, entries[procedure]),
            returns=_always(telling, exits[procedure]),
        )
        for procedure in program.blocks
    }


def reads(program: Program, procedure: int, words: Vocabulary) -> tuple[str, ...]:
    """The quantities that a procedure asks for itself, and `counter` or `last` if it asks for these."""
    asked: dict[str, None] = {}
    for statement in walk(program.blocks[procedure]):
        if isinstance(statement, For) and statement.quantity:
            asked |= dict.fromkeys(name for name in words.kinds if name in statement.quantity.split(" * "))
        if isinstance(statement, If | While):
            for part in (part for clause in statement.condition.clauses for part in clause):
                asked |= dict.fromkeys(_asked(part.test, words))
    return tuple(asked)


def _asked(test: Comparison, words: Vocabulary) -> list[str]:
    if test.feature.startswith(LAST_IS):
        return [LAST]
    feature = words.features[test.feature]
    right = feature.right.split(" * ")[0]  # the square of a count reads the count
    return [name for name in (feature.left, right) if name in words.kinds or name == COUNTER]


def _literals(words: Vocabulary) -> Iterator[Literal]:
    """Statements worth a reader's time: truth values, which of two quantities is larger, and values without order."""
    for name, feature in words.features.items():
        if feature.members or (words.kinds.get(feature.left) == "truth" and not feature.right):
            thresholds = [0.5]
        elif feature.right and feature.left != COUNTER:
            thresholds = [0.0, -1.0]  # larger; at least as large
        else:
            continue
        for threshold in thresholds:
            yield Literal(Comparison(name, threshold))
            yield Literal(Comparison(name, threshold), negated=True)


def _truth(part: Literal, facts: Facts, rows: int) -> Bool[np.ndarray, "R"]:
    """Where a literal holds."""
    nothing = np.zeros(rows, dtype=np.int64)
    moments = Moments(rows=np.arange(rows), counters=nothing, lasts=nothing + NO_STEP)
    column = facts.column(part.test.feature, moments)
    return np.asarray((column > part.test.threshold) != part.negated)


def _always(telling: Mapping[Literal, Bool[np.ndarray, "R"]], rows: Sequence[int]) -> tuple[Literal, ...]:
    """The literals that hold at all these rows; of two that say the same of a pair, the stronger one."""
    found = [part for part, truth in telling.items() if rows and truth[list(rows)].all()]
    features = [part.test.feature for part in found]
    return tuple(part for i, part in enumerate(found) if part.test.feature not in features[:i])
