"""Small learners, random traces, and the objective by enumeration of every call structure."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from hvil.data.effect_fields import EffectField
from hvil.data.traces import Annotations, Traces
from hvil.learners.config import Config
from hvil.learners.hvil import HvilLearner
from hvil.learners.networks.bank import MlpBank, ModuleBank
from hvil.learners.networks.batch import prepare
from hvil.learners.networks.simplicity import step_prices
from hvil.learners.objective.elbo import Terms, elbo_terms
from hvil.learners.objective.estimators import analytic_costs, sampled_log_q
from hvil.learners.settings import HvilSettings
from hvil.machine import reference
from hvil.machine.callgraph import CallGraph, call_graph
from hvil.machine.reference import Stack
from hvil.machine.steps import Steps, Walk

ACTIONS = ("a", "b")
WIDTH = 3

GRAPHS: dict[str, CallGraph] = {
    "tree": call_graph("tree:2x2", ACTIONS),
    "chain": call_graph("chain:3", ACTIONS),
    "recursive": replace(call_graph("complete:2", ACTIONS), max_depth=3),
    "restricted": CallGraph(
        ("root", "left", "right", "mute"),
        ACTIONS,
        calls=((1, 2, 3), (2,), (0, 1), ()),
        acts=((), (0,), (0, 1), ()),
        max_depth=4,
    ),
}
"""Trees and cycles; the last has a root that only calls, and a procedure that can do nothing."""


def make_learner(
    graph: CallGraph,
    shape: tuple[int, ...] = (WIDTH,),
    seed: int = 0,
    names: tuple[str, ...] = (),
    effect_fields: tuple[EffectField, ...] = (),
    **settings: Any,
) -> HvilLearner:
    """A small learner whose weights are large enough for distributions that are far from uniform."""
    torch.manual_seed(seed)
    model = HvilSettings(**{"hidden": 5, "context": 3, **settings})
    learner = HvilLearner(Config(graph.action_names, names, shape, graph, model, effect_fields=effect_fields))
    with torch.no_grad():
        for parameter in learner.parameters():
            parameter *= 2
    return learner


def make_traces(
    graph: CallGraph,
    sequences: Sequence[Sequence[int]],
    seed: int = 0,
    shape: tuple[int, ...] = (WIDTH,),
    annotated: float = 0,
) -> Traces:
    """Traces with the given actions and random observations; a share of the steps is annotated."""
    rng = np.random.default_rng(seed)
    observations = [rng.normal(size=(len(actions) + 1, *shape)).astype(np.float32) for actions in sequences]
    annotations = random_annotations(graph, sequences, rng, annotated) if annotated else None
    return Traces.from_episodes(
        observations, [np.array(actions) for actions in sequences], graph.action_names, annotations=annotations
    )


def random_sequences(graph: CallGraph, lengths: Sequence[int], seed: int = 0) -> list[list[int]]:
    """Actions that the graph can emit."""
    possible = np.flatnonzero(graph.reaches[graph.max_depth, graph.root])
    rng = np.random.default_rng(seed)
    return [rng.choice(possible, length).tolist() for length in lengths]


def random_structure(graph: CallGraph, actions: Sequence[int], rng: np.random.Generator) -> list[int]:
    """Each step uniform among the possible ones."""
    emitted, stack, time, taken = [*actions, graph.terminate], reference.start(graph), 0, []
    while stack:
        taken.append(int(rng.choice(reference.posterior_steps(graph, stack, emitted[time]))))
        stack = reference.step(graph, stack, taken[-1])
        time += taken[-1] < graph.terminate
    return taken


def random_annotations(
    graph: CallGraph, sequences: Sequence[Sequence[int]], rng: np.random.Generator, share: float
) -> Annotations:
    """The random structures of some traces, of which about a share of the steps is told; some do not say `kept`."""
    stacks, kept = [], []
    for actions in sequences:
        whole = reference.stacks_from_structure(graph, actions, random_structure(graph, actions, rng))
        stacks.append(np.pad(whole.stacks, ((0, 0), (0, graph.max_depth - whole.stacks.shape[1])), constant_values=-1))
        kept.append(whole.kept)
    all_stacks, all_kept = np.concatenate(stacks), np.concatenate(kept)
    hidden = rng.random(len(all_stacks)) >= share
    unsure = hidden if share < 1 else np.zeros_like(hidden)
    return Annotations(
        graph.procedures,
        np.where(hidden[:, None], np.int16(-1), all_stacks),
        np.where(unsure | ((share < 1) & (rng.random(len(hidden)) < 0.3)), np.int16(-1), all_kept),
    )


class Taken(NamedTuple):
    """One PHP step of an enumerated structure."""

    stack: Stack
    time: int
    choice: int
    annotated: bool


def enumerate_structures(learner: HvilLearner, trace: Traces) -> Iterator[tuple[Taken, ...]]:
    """Every structure that the posterior can sample for one trace, annotated steps as they are told."""
    graph = learner.config.graph
    emitted = [*trace.actions.tolist(), graph.terminate]
    annotations = trace.annotations if learner.config.model.annotations == "use" else None

    def extend(stack: Stack, time: int, planned: list[int], taken: tuple[Taken, ...]) -> Iterator[tuple[Taken, ...]]:
        if not stack:
            yield taken
            return
        if annotations is not None and not planned and time < len(trace.actions) and annotations.known[time]:
            wanted = [graph.procedures.index(annotations.procedures[p]) for p in annotations.stacks[time] if p >= 0]
            planned = reference.steps_towards(graph, stack, wanted, int(annotations.kept[time]), emitted[time])
        choices = planned[:1] or reference.posterior_steps(graph, stack, emitted[time])
        for choice in choices:
            step = Taken(stack, time, choice, bool(planned))
            later = time + (choice < graph.terminate)
            yield from extend(reference.step(graph, stack, choice), later, planned[1:], (*taken, step))

    return extend(reference.start(graph), 0, [], ())


def as_walk(graph: CallGraph, emitted: Sequence[int], structures: Sequence[Sequence[Taken]]) -> Walk:
    """Many structures of one trace, as a walk over copies of the trace would return them."""
    flat = [taken for structure in structures for taken in structure]

    def mask(possible: list[list[int]]) -> np.ndarray:
        array = np.zeros((len(flat), graph.step_count), dtype=bool)
        for row, choices in zip(array, possible, strict=True):
            row[choices] = True
        return array

    tops = [taken.stack[-1] for taken in flat]
    copies = np.repeat(np.arange(len(structures)), [len(structure) for structure in structures])
    steps = Steps(
        row=np.array([taken.time for taken in flat]) + copies * len(emitted),
        procedure=np.array([frame.procedure for frame in tops]),
        counter=np.array([frame.counter for frame in tops]),
        last=np.array([frame.last for frame in tops]),
        depth=np.array([len(taken.stack) for taken in flat]),
        choice=np.array([taken.choice for taken in flat]),
        offsets=np.concatenate([[0], np.cumsum([len(structure) for structure in structures])]),
    )
    return Walk(
        steps=steps,
        annotated=np.array([taken.annotated for taken in flat]),
        posterior_possible=mask([reference.posterior_steps(graph, t.stack, emitted[t.time]) for t in flat]),
        policy_possible=mask([reference.policy_steps(graph, taken.stack) for taken in flat]),
    )


class Enumerated(NamedTuple):
    """One trace's structures z."""

    log_q: Tensor
    """log q(z|x) of each."""
    costs: Tensor
    """Σ_i c_i of each."""
    terms: Terms

    @property
    def objective(self) -> Tensor:
        """E_q[Σ_i c_i]."""
        return (self.log_q.exp() * self.costs).sum()


def enumerated(learner: HvilLearner, trace: Traces, weight: float) -> Enumerated:
    """Evaluate the posterior and the cost of every structure of one trace, with gradients."""
    graph = learner.config.graph
    emitted = [*trace.actions.tolist(), graph.terminate]
    structures = list(enumerate_structures(learner, trace))
    walk = as_walk(graph, emitted, structures)
    batch = prepare(trace[[0] * len(structures)], learner.config, learner.device)
    context = learner.posterior.context(prepare(trace, learner.config, learner.device)).repeat(len(structures), 1)
    prices = step_prices(learner.config.model, walk.steps.counter)
    terms = elbo_terms(learner.policy_network, learner.posterior, batch, context, walk, prices)

    def totals(values: Tensor) -> Tensor:
        return torch.zeros(len(structures), dtype=torch.float64).index_add(0, terms.walk, values.double())

    return Enumerated(totals(sampled_log_q(terms)), totals(analytic_costs(terms, weight)), terms)


def gradient(learner: HvilLearner, value: Tensor) -> np.ndarray:
    """The gradient with respect to all parameters, flat."""
    parts = torch.autograd.grad(value, list(learner.parameters()), allow_unused=True, materialize_grads=True)
    return torch.cat([part.flatten() for part in parts]).double().numpy()


def assert_unbiased(learner: HvilLearner, trace: Traces, exact: np.ndarray, *, copies: int, batches: int = 40) -> float:
    """Compare the mean gradient of many samples with the exact one; the deviation of that mean along q's part of it."""
    repeated, rng = trace[[0] * copies], np.random.default_rng(0)
    samples = np.stack([gradient(learner, learner.loss(repeated, rng, 0).total) for _ in range(batches)])
    directions = directions_of_interest(learner, exact)
    projected = samples @ directions
    deviation = projected.std(axis=0, ddof=1) / np.sqrt(batches)
    z = (projected.mean(axis=0) - exact @ directions) / (deviation + 1e-5 * np.linalg.norm(exact))
    assert (np.abs(z) < 4.5).all(), f"z-scores {z.round(1)}: the estimator is biased"
    return float(deviation[0])


def directions_of_interest(learner: HvilLearner, exact: np.ndarray) -> np.ndarray:
    """Unit vectors, one a column: along the exact gradient of p's and q's parameters, then random ones."""
    sizes = [sum(p.numel() for p in part.parameters()) for part in (learner.policy_network, learner.posterior)]
    of_policy = np.repeat([True, False], sizes)
    random = np.random.default_rng(9).normal(size=(8, len(exact)))
    columns = np.stack([np.where(of_policy, 0, exact), np.where(of_policy, exact, 0), *random])
    return (columns / np.linalg.norm(columns, axis=1, keepdims=True)).T


def as_modules(bank: MlpBank) -> ModuleBank:
    """The same networks as separate modules, which compiled code cannot run."""
    return ModuleBank([_OneMlp(bank, h) for h in range(len(bank.bias1))], bank.frame)


class _OneMlp(torch.nn.Module):
    def __init__(self, bank: MlpBank, h: int) -> None:
        super().__init__()
        self.weights = torch.nn.ParameterList([p.detach()[h].clone() for p in bank.parameters()])

    def forward(self, features: Tensor, extra: Tensor) -> Tensor:
        weight1, bias1, weight2, bias2 = self.weights
        return torch.relu(torch.cat([features, extra], dim=1) @ weight1 + bias1) @ weight2 + bias2
