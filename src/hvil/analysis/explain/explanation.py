"""What a policy learned, as a program with its fidelity: `explain` goes the whole way from a policy to the text.

Runs are left to `training`: a run gathers its policy, its task or its traces, and calls `explain`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hvil.analysis.episodes import ChoosesSteps
from hvil.analysis.explain.evidence import Evidence, gather, given_traces, task_traces
from hvil.analysis.explain.extraction import extract
from hvil.analysis.explain.facts import Facts
from hvil.analysis.explain.inlining import inlined
from hvil.analysis.explain.karel import KarelSource, check_karel, karel_source
from hvil.analysis.explain.loops import with_for_loops
from hvil.analysis.explain.printing import print_procedure, print_program
from hvil.analysis.explain.program import Program
from hvil.analysis.explain.program_policy import ProgramPolicy
from hvil.analysis.explain.text import TextProgram
from hvil.analysis.explain.tree_json import program_from_mapping, program_to_mapping
from hvil.analysis.explain.vocabulary import MOST_COLUMNS, Vocabulary, recognised_kinds, vocabulary, with_kinds
from hvil.data.tasks import Task
from hvil.data.traces import Traces
from hvil.domains.karel import parse
from hvil.gate.errors import InputError
from hvil.machine.callgraph import CallGraph

EPISODES = 2_000
"""Roll-outs that a program is extracted from: what happens in one of a hundred is then seen about twenty times."""
FRESH = 1_000
"""Other roll-outs, on which its fidelity is measured: a share of 99% is then known to about 0.6%."""


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A policy as a program."""

    policy_agreement: float
    """Share of fresh episodes on which the program does exactly what the policy does."""
    teacher_agreement: float
    """Share of them on which it does exactly what the teacher does."""
    episodes: int
    """The number of these episodes."""
    unused: tuple[str, ...]
    """Procedures that were never called."""
    task: str | None
    """The task in whose environment the policy was rolled out; None if the policy was run along traces."""
    karel: KarelSource | None = None
    """The program in the Karel language, if it was asked for."""
    program: Program = field(repr=False)
    words: Vocabulary = field(repr=False)
    """The names in which the program is written."""
    graph: CallGraph = field(repr=False)

    @property
    def source(self) -> str:
        """Python text: the root first, then what it calls."""
        return print_program(self.words, self.program)

    @property
    def lines(self) -> int:
        """The number of lines of the source."""
        return len(self.source.splitlines())

    @property
    def rolled_out(self) -> bool:
        """Whether the episodes are roll-outs in the task's environment."""
        return self.task is not None

    @property
    def procedures(self) -> tuple[str, ...]:
        """The procedures of the program, by their names in the call graph."""
        return tuple(self.graph.procedures[index] for index in self.program.blocks)

    @property
    def absorbed(self) -> tuple[str, ...]:
        """Procedures that were called, but whose work the program does without them."""
        return tuple(name for name in self.graph.procedures if name not in {*self.unused, *self.procedures})

    @property
    def fidelity(self) -> str:
        """The two agreements in words."""
        kind = "fresh roll-outs" if self.rolled_out else "traces"
        return (
            f"agrees with the policy on {self.policy_agreement:.1%} and with the teacher on "
            f"{self.teacher_agreement:.1%} of {self.episodes:,} {kind}"
        )

    def policy(self, width: int) -> ProgramPolicy:
        """The program as a policy; `width` is how many numbers an observation has."""
        return ProgramPolicy(self.source, self.words, self.graph.action_names, width)

    def procedure(self, name: str) -> str:
        """The text of one procedure, by its name in the call graph."""
        index = self.graph.procedure_index(name)
        if index not in self.program.blocks:
            why = "was never called" if name in self.unused else "is not needed: the program does its work elsewhere"
            raise InputError(f"the procedure {name!r} {why}; the program has {', '.join(self.procedures)}")
        return "\n".join(print_procedure(self.words, index, self.program.blocks[index])) + "\n"

    def summary(self) -> dict[str, Any]:
        """The text and how faithful it is, as JSON for people and other programs."""
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

    def to_mapping(self) -> dict[str, Any]:
        """All of it as JSON; `from_mapping` reads it."""
        return {
            **self.summary(),
            "program": program_to_mapping(self.program),
            "kinds": [quantity.kind for quantity in self.words.quantities],
            "karel": None if self.karel is None else self.karel._asdict(),
        }

    @classmethod
    def from_mapping(
        cls, mapping: Mapping[str, Any], graph: CallGraph, task: Task | None, observation_names: Sequence[str] = ()
    ) -> "Explanation":
        """An explanation that `to_mapping` wrote.

        Names and expressions come from the call graph and the task, never from the mapping, so that a file cannot bring
        code into the text of a program.

        Raises:
            InputError: the mapping is not an explanation of such a policy.
        """
        try:
            kinds = [str(kind) for kind in mapping["kinds"]]
            words = vocabulary(graph, task, observation_names, len(kinds))
            if len(words.quantities) != len(kinds):
                raise ValueError("it has other observations")
            words = with_kinds(words, kinds)
            karel = mapping["karel"]
            if karel is not None:
                parse(karel["source"])  # refuses what is not Karel
            return cls(
                policy_agreement=float(mapping["policy_agreement"]),
                teacher_agreement=float(mapping["teacher_agreement"]),
                episodes=int(mapping["episodes"]),
                unused=tuple(name for name in graph.procedures if name in mapping["unused"]),
                task=None if task is None else task.name,
                karel=None if karel is None else KarelSource(**karel),
                program=program_from_mapping(mapping["program"], words),
                words=words,
                graph=graph,
            )
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise InputError(f"not an explanation of this policy ({error})") from error

    def __str__(self) -> str:
        return self.source


def explain(
    policy: object,
    task: Task | None = None,
    *,
    traces: Traces | None = None,
    measure: Traces | None = None,
    observation_names: Sequence[str] | None = None,
    inline: bool = False,
    karel: bool = False,
    episodes: int = EPISODES,
    fresh: int = FRESH,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> Explanation:
    """Extract a program from a policy and measure how faithful it is.

    Args:
        policy: of procedures (`ChoosesSteps`).
        task: where to roll it out.
        traces: without a task, the policy is run along these, up to its first error.
        measure: without a task, other traces to measure on; by default the second half of `traces`.
        observation_names: of the observation's columns; by default those of the traces or of the task.
        inline: write procedures that are called at one point only, or take a single step, where they are called.
        karel: also give the program in the Karel language.
        episodes: roll-outs to extract from.
        fresh: other roll-outs to measure on.
        seed: of the roll-outs' initial states.
        progress: called now and then with the share of the work that is done.

    Raises:
        InputError: the policy has no procedures, there is nothing to run it on, or it does not fit the Karel language.
    """
    if not isinstance(policy, ChoosesSteps):
        raise InputError("this policy has no procedures to explain (an LSTM, a feed-forward network or a Stack-RNN)")
    if task is not None and task.action_names != policy.graph.action_names:
        raise InputError(f"{task.name}: its actions are not the policy's")
    if karel:
        check_karel(task)
    pair = given_traces(traces, measure) if task is None else task_traces(task, episodes, fresh, seed)
    width = pair.study.observations[0].size
    if width > MOST_COLUMNS and not (task and task.quantities):
        raise InputError(f"observations of {width} numbers are too many to be named in a program")
    if observation_names is None:
        observation_names = pair.study.observation_names
    graph = policy.graph
    # A rough division of the progress: roll-outs, then the extraction; the last tenth is for the measurement.
    evidence = gather(policy, task, pair, _part(progress, 0.0, 0.5))
    words = vocabulary(graph, task, observation_names, width)
    words = with_kinds(words, recognised_kinds(words, evidence.studied.observations))
    extraction = extract(
        evidence.studied, graph, Facts(words, evidence.studied.observations), _part(progress, 0.5, 0.9)
    )
    program = with_for_loops(inlined(extraction.program) if inline else extraction.program, words)
    with_policy, with_teacher = _fidelity(program, words, evidence)
    return Explanation(
        policy_agreement=with_policy,
        teacher_agreement=with_teacher,
        episodes=len(evidence.measured),
        unused=tuple(graph.procedures[procedure] for procedure in extraction.unused),
        task=None if task is None else task.name,
        karel=karel_source(program, words, graph, evidence, task) if karel else None,
        program=program,
        words=words,
        graph=graph,
    )


def _fidelity(program: Program, words: Vocabulary, evidence: Evidence) -> tuple[float, float]:
    """The shares of episodes on which the printed text does what the policy does, and what the teacher does."""
    text = TextProgram(print_program(words, program), words)
    measured, teacher = evidence.measured, evidence.teacher
    with_policy = text.agreement(measured.observations, measured.row_offsets, measured.emitted)
    demonstrated = teacher.observations.reshape(len(teacher.observations), -1)
    with_teacher = text.agreement(demonstrated, teacher.row_offsets, teacher.emitted())
    return float(with_policy.mean()), float(with_teacher.mean())


def _part(progress: Callable[[float], None] | None, start: float, end: float) -> Callable[[float], None] | None:
    """Progress of a part of the work, as progress of the whole."""
    return None if progress is None else lambda share: progress(start + share * (end - start))
