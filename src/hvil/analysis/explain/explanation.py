"""What a policy learned, as a program with its fidelity. `explaining` goes the whole way from a policy to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from hvil.analysis.explain.contracts import Contract, reads
from hvil.analysis.explain.karel import KarelSource
from hvil.analysis.explain.laws import Laws, laws_from_list, laws_to_list
from hvil.analysis.explain.printing import print_procedure, print_program
from hvil.analysis.explain.program import Program, steps_of
from hvil.analysis.explain.program_policy import ProgramPolicy
from hvil.analysis.explain.tree_json import (
    literals_from_list,
    literals_to_list,
    program_from_mapping,
    program_to_mapping,
)
from hvil.analysis.explain.vocabulary import (
    Vocabulary,
    vocabulary,
    with_kinds,
)
from hvil.analysis.statistics import Interval, proportion_interval
from hvil.data.reading import ObservationReader, Reading
from hvil.data.tasks import Task
from hvil.domains.karel import parse
from hvil.gate.errors import InputError
from hvil.gate.text import in_line
from hvil.machine.callgraph import CallGraph

FAITHFUL = 0.95
"""Agreement with the policy below which a program comes with a warning: one episode in twenty would mislead."""
MOST_LINES = 80
"""Lines from which on a program comes with a warning: more do not fit on a page, and nobody keeps them in mind."""
NAMED_DISAGREEMENTS = 10
"""Episodes on which program and policy differ that are named, at most: enough to look at."""


class Faithful(NamedTuple):
    """The program as it was extracted, before it lost what no training trace asks for."""

    lines: int
    policy_agreement: float
    teacher_agreement: float


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
    training_explained: int | None = None
    """Training traces that the program explains: it does exactly what the teacher did; None if unknown."""
    training_traces: int | None = None
    """The number of training traces; None if they were not at hand."""
    disagreements: tuple[int, ...] | None = None
    """The first of the fresh episodes on which program and policy differ, counted from 0; None if unknown."""
    listed: tuple[str, ...] | None = None
    """Procedures in which no structure was found: they are lists of conditions; None if unknown."""
    inlined: bool = False
    """Whether procedures were written where they are called."""
    faithful: Faithful | None = None
    """How the program was before it was simplified; None if it was not."""
    from_traces: bool = False
    """Whether it was written from the training traces alone, because that made a smaller one."""
    karel: KarelSource | None = None
    """The program in the Karel language, if it was asked for."""
    contracts: Mapping[int, Contract] = field(default_factory=dict, repr=False)
    """What each procedure reads, how it is entered and what holds when it returns; empty if unknown."""
    laws: Laws = field(default_factory=dict, repr=False)
    """What the continuous actions of each procedure are; empty for discrete actions."""
    program: Program = field(repr=False)
    words: Vocabulary = field(repr=False)
    """The names in which the program is written."""
    graph: CallGraph = field(repr=False)

    @property
    def text(self) -> str:
        """Python text of the program alone: the root first, then what it calls."""
        return print_program(self.words, self.program)

    @property
    def source(self) -> str:
        """The text and above it, if there is one, the warning as a comment."""
        return self._with_warning(self.text)

    @property
    def commented(self) -> str:
        """The source with comments that say what each procedure reads, how it is entered and what holds at its end."""
        comments = {procedure: contract.lines(self.words) for procedure, contract in self.contracts.items()}
        for procedure, laws in self.laws.items():
            if procedure in self.program.blocks:
                comments[procedure] = comments.get(procedure, []) + [f"# acts: {law.text(self.words)}" for law in laws]
        return self._with_warning(print_program(self.words, self.program, comments))

    @property
    def lines(self) -> int:
        """The number of lines of the text."""
        return len(self.text.splitlines())

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
    def policy_interval(self) -> Interval:
        """The 95% interval of the agreement with the policy."""
        return proportion_interval(round(self.policy_agreement * self.episodes), self.episodes)

    @property
    def teacher_interval(self) -> Interval:
        """The 95% interval of the agreement with the teacher."""
        return proportion_interval(round(self.teacher_agreement * self.episodes), self.episodes)

    @property
    def fidelity(self) -> str:
        """The two agreements in words."""
        with_policy = _share_text(self.policy_agreement, self.policy_interval)
        with_teacher = _share_text(self.teacher_agreement, self.teacher_interval)
        return f"agrees with the policy on {with_policy} and with the teacher on {with_teacher} of {self._episodes}"

    @property
    def warning(self) -> str | None:
        """One sentence, if the policy is too tangled for a program that can be read and believed."""
        extracted = self.faithful or self
        unfaithful = extracted.policy_agreement < FAITHFUL
        if self.lines <= MOST_LINES and not unfaithful:
            return None
        faults = [f"has {self.lines} lines"] if self.lines > MOST_LINES else []
        if self.listed:
            faults.append(f"falls back on lists of conditions ({self._named(self.listed)})")
        interval = proportion_interval(round(extracted.policy_agreement * self.episodes), self.episodes)
        agreement = f"{_share_text(extracted.policy_agreement, interval)} of {self._episodes}"
        faults.append(f"agrees with it on {'only ' if unfaithful else ''}{agreement}")
        return f"this policy is too tangled to explain well: the program {' and '.join(faults)}"

    @property
    def no_hierarchy(self) -> str | None:
        """One sentence, if one procedure takes every action and calls none; not if calls were to be written out."""
        if self.inlined:
            return None
        program, names = self.program, self.words.procedures
        steps = {procedure: set(steps_of(block)) for procedure, block in program.blocks.items()}
        acting = [
            procedure for procedure, taken in steps.items() if min(taken, default=program.terminate) < program.terminate
        ]
        if len(acting) > 1 or any(step > program.terminate for procedure in acting for step in steps[procedure]):
            return None
        only = acting[0] if acting else program.root
        if only == program.root:
            return f"no hierarchy: one procedure does everything ({names[only]})"
        return f"no hierarchy: one procedure takes every action ({names[only]}), the others only call it"

    @property
    def notes(self) -> list[str]:
        """What else there is to say of the program, a sentence each."""
        notes = []
        if self.laws:
            notes.append("actions are continuous: traces are compared by when the program ends, not by its actions")
        for procedure, laws in self.laws.items():
            rules = "; ".join(law.text(self.words) for law in laws)
            notes.append(f"{self.words.procedures[procedure]} acts: {rules}")
        if self.training_traces is not None:
            notes.append(f"explains {self.training_explained} of {self.training_traces} training traces")
        if self.faithful is not None:
            how = (
                "written from the training traces alone, as that is shorter"
                if self.from_traces
                else ("simplified: without what no training trace asks for")
            )
            notes.append(
                f"{how}; as extracted from the policy ({self.faithful.lines} lines), it agrees with the policy on "
                f"{self.faithful.policy_agreement:.1%} and with the teacher on {self.faithful.teacher_agreement:.1%}"
            )
        if self.listed:
            notes.append(f"a list of conditions, as no other structure was found: {self._named(self.listed)}")
        if self.disagreements:
            first = ", ".join(map(str, self.disagreements))
            more = ", …" if self.disagreement_count > len(self.disagreements) else ""
            differs = f"differs from the policy on {self.disagreement_count:,} of {self._episodes}"
            notes.append(f"{differs} (counted from 0: {first}{more})")
        if self.no_hierarchy:
            notes.append(self.no_hierarchy)
        if self.unused:
            notes.append(f"never called: {in_line(', '.join(self.unused))}")
        if self.absorbed:
            notes.append(f"called, but not needed (their work is done above): {in_line(', '.join(self.absorbed))}")
        return notes

    @property
    def disagreement_count(self) -> int:
        """The number of fresh episodes on which program and policy differ."""
        return self.episodes - round(self.policy_agreement * self.episodes)

    def _named(self, procedures: Sequence[str]) -> str:
        """Procedures as the program spells them."""
        return ", ".join(self.words.procedures[self.graph.procedure_index(name)] for name in procedures)

    @property
    def _episodes(self) -> str:
        return f"{self.episodes:,} {'fresh roll-outs' if self.rolled_out else 'traces'}"

    def _with_warning(self, text: str) -> str:
        return f"# {self.warning}\n{text}" if self.warning else text

    def policy(self, reader: ObservationReader) -> ProgramPolicy:
        """The program as a policy; `reader` turns observations into numbers."""
        return ProgramPolicy(self.source, self.words, self.graph.action_names, reader)

    def procedure(self, name: str) -> str:
        """The text of one procedure, by its name in the call graph."""
        index = self.graph.procedure_index(name)
        if index not in self.program.blocks:
            why = "was never called" if name in self.unused else "is not needed: the program does its work elsewhere"
            raise InputError(f"the procedure {name!r} {why}; the program has {', '.join(self.procedures)}")
        return self._with_warning("\n".join(print_procedure(self.words, index, self.program.blocks[index])) + "\n")

    def summary(self) -> dict[str, Any]:
        """The text and how faithful it is, as JSON for people and other programs."""
        return {
            "source": self.source,
            "lines": self.lines,
            "warning": self.warning,
            "policy_agreement": self.policy_agreement,
            "policy_agreement_interval": list(self.policy_interval),
            "teacher_agreement": self.teacher_agreement,
            "teacher_agreement_interval": list(self.teacher_interval),
            "episodes": self.episodes,
            "rolled_out": self.rolled_out,
            "disagreement_count": self.disagreement_count,
            "disagreements": None if self.disagreements is None else list(self.disagreements),
            "training_explained": self.training_explained,
            "training_traces": self.training_traces,
            "procedures": list(self.procedures),
            "contracts": {
                self.graph.procedures[h]: contract.lines(self.words) for h, contract in self.contracts.items()
            },
            **(
                {
                    "laws": {
                        self.graph.procedures[h]: [law.text(self.words) for law in laws]
                        for h, laws in self.laws.items()
                    }
                }
                if self.laws
                else {}
            ),
            "no_hierarchy": self.no_hierarchy,
            "unused": list(self.unused),
            "absorbed": list(self.absorbed),
            "listed": None if self.listed is None else list(self.listed),
            "faithful": None if self.faithful is None else self.faithful._asdict(),
            "from_traces": self.from_traces,
        }

    def to_mapping(self) -> dict[str, Any]:
        """All of it as JSON; `from_mapping` reads it."""
        return {
            **self.summary(),
            "inlined": self.inlined,
            "program": program_to_mapping(self.program),
            "statements": [[h, *map(literals_to_list, contract[1:])] for h, contract in self.contracts.items()],
            **({"rules": laws_to_list(self.laws)} if self.laws else {}),
            "kinds": [quantity.kind for quantity in self.words.quantities],
            "sets": [[self.words.quantity_index(name), list(members)] for name, members in self.words.sets],
            "karel": None if self.karel is None else self.karel._asdict(),
        }

    @classmethod
    def from_mapping(
        cls,
        mapping: Mapping[str, Any],
        graph: CallGraph,
        task: Task | None,
        observation_names: Sequence[str] = (),
        reading: Reading | None = None,
    ) -> "Explanation":
        """An explanation that `to_mapping` wrote; what older versions did not write is unknown.

        Names and expressions come from the call graph and the task, never from the mapping, so that a file cannot bring
        code into the text of a program.

        Raises:
            InputError: the mapping is not an explanation of such a policy.
        """
        try:
            kinds = [str(kind) for kind in mapping["kinds"]]
            words = vocabulary(graph, task, observation_names, len(kinds), reading)
            if len(words.quantities) != len(kinds):
                raise ValueError("it has other observations")
            words = with_kinds(words, kinds)
            sets = ((words.quantities[i].name, tuple(map(int, members))) for i, members in mapping.get("sets", ()))
            words = replace(words, sets=tuple(sets))
            karel = mapping["karel"]
            if karel is not None:
                parse(karel["source"])  # refuses what is not Karel
            disagreements, listed = mapping.get("disagreements"), mapping.get("listed")
            program = program_from_mapping(mapping["program"], words)
            statements = {h: parts for h, *parts in mapping.get("statements", ()) if h in program.blocks}
            explanation = cls(
                contracts={
                    h: Contract(reads(program, h, words), *(literals_from_list(part, words) for part in parts))
                    for h, parts in statements.items()
                },
                laws=laws_from_list(mapping.get("rules", ()), len(graph.procedures), len(kinds)),
                policy_agreement=float(mapping["policy_agreement"]),
                teacher_agreement=float(mapping["teacher_agreement"]),
                episodes=int(mapping["episodes"]),
                unused=tuple(name for name in graph.procedures if name in mapping["unused"]),
                training_explained=_count_or_none(mapping.get("training_explained")),
                training_traces=_count_or_none(mapping.get("training_traces")),
                disagreements=None if disagreements is None else tuple(map(int, disagreements)),
                listed=None if listed is None else tuple(name for name in graph.procedures if name in listed),
                inlined=bool(mapping.get("inlined", False)),
                faithful=_faithful_or_none(mapping.get("faithful")),
                from_traces=bool(mapping.get("from_traces", False)),
                task=None if task is None else task.name,
                karel=None if karel is None else KarelSource(**karel),
                program=program,
                words=words,
                graph=graph,
            )
            _ = explanation.fidelity  # refuses agreements that are no shares
            return explanation
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise InputError(f"not an explanation of this policy ({error})") from error

    def __str__(self) -> str:
        return self.source


def _share_text(share: float, interval: Interval) -> str:
    low, high = interval
    return f"{share:.1%} [{100 * low:.1f}, {100 * high:.1f}]"


def _count_or_none(value: Any) -> int | None:
    return None if value is None else int(value)


def _faithful_or_none(value: Any) -> Faithful | None:
    if value is None:
        return None
    return Faithful(int(value["lines"]), float(value["policy_agreement"]), float(value["teacher_agreement"]))
