"""The whole way from a policy to its explanation: play it, extract a program, simplify it, measure it.

Runs are left to `training`: a run gathers its policy, its task or its traces, and calls `explain`.

Letters: N traces.
"""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Bool

from hvil.analysis.episodes import ChoosesSteps
from hvil.analysis.explain.contracts import contracts
from hvil.analysis.explain.evidence import Evidence, gather, given_traces, task_traces
from hvil.analysis.explain.explanation import NAMED_DISAGREEMENTS, Explanation, Faithful
from hvil.analysis.explain.extraction import extract
from hvil.analysis.explain.facts import Facts
from hvil.analysis.explain.flat import flat_program
from hvil.analysis.explain.inlining import inlined
from hvil.analysis.explain.karel import check_karel, karel_source
from hvil.analysis.explain.laws import action_laws
from hvil.analysis.explain.loops import with_for_loops
from hvil.analysis.explain.printing import print_program
from hvil.analysis.explain.program import Program
from hvil.analysis.explain.simplification import Demonstrations, length, simplified
from hvil.analysis.explain.text import TextProgram
from hvil.analysis.explain.vocabulary import (
    MOST_COLUMNS,
    Vocabulary,
    recognised_kinds,
    vocabulary,
    with_kinds,
    with_sets,
)
from hvil.data.reading import Reading
from hvil.data.tasks import Task
from hvil.data.traces import Traces
from hvil.gate.errors import InputError

EPISODES = 2_000
"""Roll-outs that a program is extracted from: what happens in one of a hundred is then seen about twenty times."""
FRESH = 1_000
"""Other roll-outs, on which its fidelity is measured: a share of 99% is then known to about 0.6%."""
TRAINING_ROWS = 20_000
"""Rows of training traces that a program is simplified by: every smaller program has to explain them all, and several
hundred traces of bubble sort or thousands of Karel say what is needed."""


def explain(
    policy: object,
    task: Task | None = None,
    *,
    traces: Traces | None = None,
    measure: Traces | None = None,
    training: Traces | None = None,
    faithful: bool = False,
    observation_names: Sequence[str] | None = None,
    reading: Reading | None = None,
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
        training: traces that the policy was trained on. The program loses what none of them asks for, or gives way to a
            smaller one that is made from them alone; those that it explains are counted.
        faithful: the program keeps what only the policy asks for.
        observation_names: of the observation's columns; by default those of the traces or of the task.
        reading: how the columns were made from a table; by default as the traces say.
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
    laws = action_laws(policy, evidence.studied)
    if laws:
        # All continuous actions look alike to a program: what tells them apart is the procedure that takes them.
        inline, faithful = False, True
    words = vocabulary(graph, task, observation_names, width, reading or pair.study.reading)
    words = with_kinds(words, recognised_kinds(words, evidence.studied.observations))
    words = with_sets(words, evidence.studied.observations, evidence.studied.emitted)
    facts = Facts(words, evidence.studied.observations)
    extraction = extract(evidence.studied, graph, facts, _part(progress, 0.5, 0.8))
    extracted = inlined(extraction.program) if inline else extraction.program
    written = extracted
    flat = None
    demonstrations = None if training is None or faithful else _demonstrations(training, words)
    if demonstrations is not None and demonstrations.mostly_explained(extraction.program):
        smaller = simplified(extraction.program, demonstrations, evidence.studied, facts)
        flat = _shorter(flat_program(demonstrations, graph.root, graph.terminate), smaller)
        written = flat or (inlined(smaller) if inline else smaller)
    program = with_for_loops(written, words)
    text = TextProgram(print_program(words, program), words)
    measured = evidence.measured
    with_policy = text.agreement(measured.observations, measured.row_offsets, measured.emitted)
    return Explanation(
        policy_agreement=float(with_policy.mean()),
        teacher_agreement=float(_does_as(text, evidence.teacher).mean()),
        episodes=len(measured),
        training_explained=None if training is None else int(_does_as(text, training).sum()),
        training_traces=None if training is None else len(training),
        disagreements=tuple(np.flatnonzero(~with_policy)[:NAMED_DISAGREEMENTS].tolist()),
        listed=tuple(graph.procedures[procedure] for procedure in extraction.listed if procedure in program.blocks),
        inlined=inline and len(written.blocks) < len(extraction.program.blocks),
        from_traces=flat is not None,
        faithful=None if written == extracted else _faithful(with_for_loops(extracted, words), words, evidence),
        unused=tuple(graph.procedures[procedure] for procedure in extraction.unused),
        task=None if task is None else task.name,
        karel=karel_source(program, words, graph, evidence, task) if karel else None,
        contracts=contracts(written, program, words, evidence.studied, facts),
        laws=laws,
        program=program,
        words=words,
        graph=graph,
    )


def _faithful(program: Program, words: Vocabulary, evidence: Evidence) -> Faithful:
    """What there is to say of a program before it is simplified."""
    source = print_program(words, program)
    text, measured = TextProgram(source, words), evidence.measured
    return Faithful(
        lines=len(source.splitlines()),
        policy_agreement=float(text.agreement(measured.observations, measured.row_offsets, measured.emitted).mean()),
        teacher_agreement=float(_does_as(text, evidence.teacher).mean()),
    )


def _shorter(flat: Program | None, program: Program) -> Program | None:
    """The flat program, if it says less than the other one does with its procedures written out."""
    return flat if flat is not None and length(flat) < length(inlined(program)) else None


def _demonstrations(traces: Traces, words: Vocabulary) -> Demonstrations:
    """The first training traces, up to `TRAINING_ROWS` rows."""
    count = int(np.searchsorted(traces.row_offsets, TRAINING_ROWS, side="right")) - 1
    traces = traces[: max(1, count)]
    observations = traces.observations.reshape(len(traces.observations), -1)
    return Demonstrations(
        facts=Facts(words, observations), row_offsets=traces.row_offsets, emitted=traces.emitted().tolist()
    )


def _does_as(text: TextProgram, traces: Traces) -> Bool[np.ndarray, "N"]:
    """On which traces the printed text does exactly what the teacher did."""
    observations = traces.observations.reshape(len(traces.observations), -1)
    return text.agreement(observations, traces.row_offsets, traces.emitted())


def _part(progress: Callable[[float], None] | None, start: float, end: float) -> Callable[[float], None] | None:
    """Progress of a part of the work, as progress of the whole."""
    return None if progress is None else lambda share: progress(start + share * (end - start))
