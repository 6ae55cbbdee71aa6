"""What a policy learned, as a program with its fidelity: `explain` does the whole way from a run to the text."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from hvil.analysis.explain.episodes import ChoosesSteps, Recording, record
from hvil.analysis.explain.execution import Facts, Program
from hvil.analysis.explain.extraction import extract
from hvil.analysis.explain.inlining import inlined
from hvil.analysis.explain.loops import with_for_loops
from hvil.analysis.explain.printing import print_procedure, print_program
from hvil.analysis.explain.synthesis import END
from hvil.analysis.explain.text import TextProgram, text_agreement
from hvil.analysis.explain.vocabulary import MANY, Vocabulary, recognised, vocabulary
from hvil.data.streams import independent_seed
from hvil.data.tasks import Task
from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.machine.callgraph import CallGraph

if TYPE_CHECKING:
    from hvil.training.run import Run

EPISODES = 2_000
"""Roll-outs that a program is extracted from."""
FRESH = 1_000
"""Other roll-outs, on which its fidelity is measured."""


@dataclass(frozen=True)
class Explanation:
    """A policy as a program."""

    source: str
    """Python text: the root first, then what it calls."""
    lines: int
    """Of the source."""
    policy_agreement: float
    """Share of fresh episodes on which the program does exactly what the policy does."""
    teacher_agreement: float
    """Share of them on which it does exactly what the teacher does."""
    episodes: int
    """How many these are."""
    rolled_out: bool
    """Whether they are roll-outs in the task's environment; else the policy was run along traces."""
    unused: tuple[str, ...]
    """Procedures that were never called."""
    absorbed: tuple[str, ...]
    """Procedures that were called, but whose work the program does without them."""
    program: Program = field(repr=False)
    words: Vocabulary = field(repr=False)
    graph: CallGraph = field(repr=False)
    task: Task | None = field(repr=False)
    study: Recording = field(repr=False)
    """The episodes that the program was extracted from."""
    fresh: Traces = field(repr=False)
    """The teacher's traces of the episodes that it was measured on, and what the policy did there:"""
    checked: Recording = field(repr=False)

    @property
    def fidelity(self) -> str:
        """The two agreements in words."""
        kind = "fresh roll-outs" if self.rolled_out else "traces"
        return (
            f"agrees with the policy on {self.policy_agreement:.1%} and with the teacher on "
            f"{self.teacher_agreement:.1%} of {self.episodes:,} {kind}"
        )

    def procedure(self, name: str) -> str:
        """The text of one procedure, by its name in the call graph."""
        index = self.graph.procedure_index(name)
        if index not in self.program.blocks:
            why = "was never called" if name in self.unused else "is not needed: the program does its work elsewhere"
            raise InputError(f"the procedure {name!r} {why}; the program has {', '.join(self.procedures)}")
        return "\n".join(print_procedure(self.words, index, self.program.blocks[index])) + "\n"

    @property
    def procedures(self) -> tuple[str, ...]:
        """The procedures of the program, by their names in the call graph."""
        return tuple(self.graph.procedures[index] for index in self.program.blocks)

    def to_mapping(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {
            "source": self.source,
            "lines": self.lines,
            "policy_agreement": self.policy_agreement,
            "teacher_agreement": self.teacher_agreement,
            "episodes": self.episodes,
            "rolled_out": self.rolled_out,
            "procedures": list(self.procedures),
            "unused": list(self.unused),
            "absorbed": list(self.absorbed),
        }

    def __str__(self) -> str:
        return self.source


def explain(
    learned: "Run | ChoosesSteps",
    task: Task | None = None,
    traces: Traces | None = None,
    *,
    inline: bool = False,
    episodes: int = EPISODES,
    fresh: int = FRESH,
    seed: int = 0,
) -> Explanation:
    """Extract the program of a policy, and measure how faithful it is.

    Args:
        learned: a run, or a policy of procedures.
        task: where to roll out; by default that of the run. None: the policy is run along traces.
        traces: for policies without a task; by default the run's own. The second half serves to measure.
        inline: write procedures that are called in one place, or take one step, where they are called.
        episodes: roll-outs to extract from.
        fresh: other roll-outs to measure on.
        seed: of the roll-outs' initial states.

    Raises:
        InputError: the policy has no procedures, or there is nothing to run it on.
    """
    policy, task, names = _parts(learned, task, traces)
    study, measure = _sets(learned, task, traces, (episodes, fresh), seed)
    if study.observations[0].size > MANY and not getattr(task, "quantities", ()):
        raise InputError(f"observations of {study.observations[0].size} numbers are too many to be named in a program")
    recording, checked = record(policy, study, task), record(policy, measure, task)
    measure = measure[: len(checked)]
    width = recording.observations.shape[1]
    words = recognised(vocabulary(policy.graph, task, names, width), recording.observations)
    found = extract(recording, policy.graph, Facts(words, recording))
    program = inlined(found.program) if inline else found.program
    program = with_for_loops(program, words)
    source = print_program(words, program)
    root = words.procedures[program.root]
    taught = np.full(len(measure.observations), END, dtype=np.int64)
    taught[np.arange(len(measure.actions)) + np.repeat(np.arange(len(measure)), measure.lengths)] = measure.actions
    demonstrated = measure.observations.reshape(len(measure.observations), -1)
    by_policy = TextProgram(source, words, root, words.rows(checked.observations))
    by_teacher = TextProgram(source, words, root, words.rows(demonstrated))
    name = policy.graph.procedures
    return Explanation(
        source,
        len(source.splitlines()),
        float(text_agreement(by_policy, checked.offsets, checked.actions).mean()),
        float(text_agreement(by_teacher, measure.row_offsets, taught).mean()),
        len(measure),
        task is not None,
        tuple(name[h] for h in found.unused),
        tuple(name[h] for h in range(len(name)) if h not in found.unused and h not in program.blocks),
        program,
        words,
        policy.graph,
        task,
        recording,
        measure,
        checked,
    )


def _parts(
    learned: "Run | ChoosesSteps", task: Task | None, traces: Traces | None
) -> tuple[ChoosesSteps, Task | None, tuple[str, ...]]:
    """The policy, where to run it, and the names of its observations."""
    from hvil.data.sources import task_of
    from hvil.training.run import Run

    names: tuple[str, ...] = () if traces is None else traces.observation_names
    policy: object = learned
    if isinstance(learned, Run):
        names, policy = learned.config.observation_names, learned.policy
        if task is None and traces is None:
            task = task_of(learned.config.task)
    if not isinstance(policy, ChoosesSteps):
        raise InputError("this policy has no procedures to explain (an LSTM, a feed-forward network or a Stack-RNN)")
    if task is not None and task.action_names != policy.graph.action_names:
        raise InputError(f"{task.name}: its actions are not the policy's")
    return policy, task, names


def _sets(
    learned: "Run | ChoosesSteps", task: Task | None, traces: Traces | None, counts: tuple[int, int], seed: int
) -> tuple[Traces, Traces]:
    """The teacher's traces to extract from, and others to measure on."""
    from hvil.training.run import Run

    if task is not None:
        if min(counts) < 1:
            raise InputError(f"{counts[0]} and {counts[1]} roll-outs: at least 1 of each kind is needed")
        study, fresh = (task.test_demonstrations(n, independent_seed(seed + i)) for i, n in enumerate(counts))
        return study, fresh
    if traces is None and isinstance(learned, Run):
        if learned.data.test is not None:
            return learned.data.training, learned.data.test
        traces = learned.data.training
    if traces is None:
        raise InputError("no roll-outs are possible: name a task, or traces to run the policy along")
    if len(traces) < 2:
        raise InputError("a program needs at least 2 traces: to be found, and to be measured on")
    half = len(traces) // 2
    return traces[:half], traces[half:]
