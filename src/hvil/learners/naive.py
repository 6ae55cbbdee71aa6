"""HVIL as the paper writes it: one trace, one PHP step, one small network at a time, with plain autograd.

This is the twin of `learners.hvil` for tests (the same result from the same uniform numbers) and for the benchmark. It
shares the learner's parameters and the reference machine, and no other code: a mistake in one does not hide in the
other.

Letters: R rows of a trace, U choices, D features, B context.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from hvil.data.traces import Traces
from hvil.learners.hvil import HvilLearner
from hvil.learners.learner import Loss
from hvil.learners.networks.bank import MlpBank, ModuleBank
from hvil.learners.networks.simplicity import step_prices
from hvil.learners.settings import HvilSettings
from hvil.machine import reference
from hvil.machine.reference import Frame, Stack


class NaiveStep(NamedTuple):
    """One PHP step u_i of a trace, with the distributions that gradients flow through."""

    stack: Stack
    time: int
    choice: int
    annotated: bool
    """Whether it comes from an annotation and was not sampled."""
    log_q: Float[Tensor, "U"]
    """log q(u|·) of every choice, −∞ for an impossible one."""
    log_p: Float[Tensor, "U"]
    """log p(u|·); that of ∅ has the procedure's effect added."""


def naive_loss(learner: HvilLearner, traces: Traces, rng: np.random.Generator, update: int) -> Loss:
    """What `HvilLearner.loss` computes, with the same random numbers in the same order."""
    settings, depth = learner.config.model, learner.config.graph.max_depth
    final = settings.entropy_final
    weight = final + (settings.entropy_weight - final) * settings.entropy_decay ** (
        update // settings.entropy_decay_interval
    )
    most_steps = [int(n) * (2 * depth - 1) + depth for n in traces.lengths for _ in range(settings.samples)]
    uniforms = iter(np.split(rng.random(sum(most_steps)), np.cumsum(most_steps)[:-1]))
    walks = [[naive_walk(learner, trace, next(uniforms)) for _ in range(settings.samples)] for trace in traces]
    costs = [[step_costs(steps, settings, weight) for steps in of_trace] for of_trace in walks]
    total = torch.zeros((), dtype=next(learner.parameters()).dtype)
    for n, of_trace in enumerate(walks):
        for k, steps in enumerate(of_trace):
            baselines = [step_baseline(walks, costs, n, k, step.time, settings) for step in steps]
            total = total + surrogate(steps, costs[n][k], baselines, settings.estimator) / settings.samples
    every = [step for of_trace in walks for steps in of_trace for step in steps]
    kl = sum(kl_divergence(step).item() for step in every) / settings.samples
    entropy = sum(posterior_entropy(step).item() for step in every) / settings.samples
    count = len(every) / settings.samples
    bank = learner.policy_network.bank
    if settings.input_sparsity and isinstance(bank, MlpBank):
        total = total + settings.input_sparsity * sum(row.norm() for network in bank.weight1 for row in network)
    if settings.curvature_price and isinstance(bank, MlpBank):
        total = total + settings.curvature_price * naive_curvature(learner.config.observation_names, bank)
    metrics = {"elbo": -kl / len(traces), "entropy": entropy / len(traces), "entropy_weight": weight}
    metrics["php_steps_per_action"] = count / len(traces.actions)
    return Loss(total=total / len(traces), metrics=metrics)


def naive_curvature(names: Sequence[str], bank: MlpBank) -> Tensor:
    """Σ(w₊ − 2w + w₋)² over the weights w of values k with neighbours k ± 1, for columns called `field=k`."""
    total = torch.zeros((), dtype=bank.weight1.dtype)
    places = {name: place for place, name in enumerate(names)}
    for name, place in places.items():
        field, equals, value = name.partition("=")
        before, after = (places.get(f"{field}={int(value) + step}") if equals else None for step in (-1, 1))
        if before is not None and after is not None:
            weights = bank.weight1
            total = total + (weights[:, after] - 2 * weights[:, place] + weights[:, before]).square().sum()
    return total


def naive_walk(
    learner: HvilLearner, trace: Traces, uniforms: Float[np.ndarray, "numbers"], greedy: bool = False
) -> list[NaiveStep]:
    """Sample the call structure of one trace (a set of one): number i decides PHP step i."""
    graph = learner.config.graph
    rows = features = feature_rows(learner, trace)
    contexts = posterior_contexts(learner, trace, features)
    if learner.policy_network.encoder is not None:
        features = learner.policy_network.encoder(features)
    emitted = [*trace.actions.tolist(), graph.terminate]
    annotations = trace.annotations if learner.config.model.annotations == "use" else None
    stack, time, planned = reference.start(graph), 0, list[int]()
    steps: list[NaiveStep] = []
    while stack:
        if annotations is not None and not planned and time < len(trace.actions) and annotations.known[time]:
            wanted = [graph.procedures.index(annotations.procedures[p]) for p in annotations.stacks[time] if p >= 0]
            planned = reference.steps_towards(graph, stack, wanted, int(annotations.kept[time]), emitted[time])
        possible = reference.posterior_steps(graph, stack, emitted[time])
        log_q = log_probs(learner.posterior.bank, learner, contexts[time], stack[-1], possible)
        blind = learner.config.model.open_loop_leaves and not graph.calls[stack[-1].procedure]
        visible = torch.zeros_like(features[time]) if blind else features[time]
        log_p = log_probs(
            learner.policy_network.bank, learner, visible, stack[-1], reference.policy_steps(graph, stack)
        )
        if trace.vectors is not None and time < len(trace.actions):
            log_p = torch.cat([log_p[:1] + log_density(learner, visible, stack[-1], trace, time), log_p[1:]])
        if learner.policy_network.effects is not None:
            returns = torch.arange(len(log_p)) == graph.terminate
            log_p = log_p + torch.where(returns, effect(learner, rows[time], stack[-1].procedure), 0.0)
        annotated = bool(planned)
        choice = planned.pop(0) if annotated else choose(log_q.detach(), possible, float(uniforms[len(steps)]), greedy)
        steps.append(NaiveStep(stack, time, choice, annotated, log_q, log_p))
        stack = reference.step(graph, stack, choice)
        time += choice < graph.terminate
    return steps


def effect(learner: HvilLearner, row: Float[Tensor, "D"], procedure: int) -> Tensor:
    """λ·log p(o | h) of the observation with which a procedure returns, field by field."""
    effects = learner.policy_network.effects
    assert effects is not None
    location, variances = list(10 * effects.location[procedure]), list(0.01 + effects.log_variance[procedure].exp())
    total = torch.zeros(()).to(row)
    for field in effects.fields:
        own = [location.pop(0) for _ in field.columns]
        seen = [row[column].item() for column in field.columns]
        if field.kind == "category":
            for value, logit in zip(seen, own, strict=True):
                total = total + value * (logit - torch.stack(own).logsumexp(0))
        elif field.kind == "truth":
            truth = torch.sigmoid(own[0])
            total = total + (truth.log() if seen[0] else (1 - truth).log())
        else:
            variance = variances.pop(0)
            density = torch.exp(-((seen[0] - own[0]) ** 2) / (2 * variance)) / (2 * torch.pi * variance).sqrt()
            total = total + density.log()
    return total * float(learner.config.model.effects)


def step_costs(steps: list[NaiveStep], settings: HvilSettings, weight: float) -> list[Tensor]:
    """c_i of each step of a walk."""
    costs = []
    for step in steps:
        log_q, log_p = step.log_q[step.choice], step.log_p[step.choice]
        if step.annotated:
            costs.append(-log_p - log_q)
        elif settings.estimator == "score":
            costs.append(log_q - log_p + weight * log_q)
        else:
            costs.append(kl_divergence(step) - weight * posterior_entropy(step))
    prices = step_prices(settings, np.array([step.stack[-1].counter for step in steps])).tolist()
    return [cost + price for cost, price in zip(costs, prices, strict=True)]


def surrogate(steps: list[NaiveStep], costs: list[Tensor], baselines: list[float], estimator: str) -> Tensor:
    """A number whose gradient is the estimator's: Σ ∇c_i, and each ∇log q(u_j) weighed by costs less its baseline."""
    total = torch.stack(costs).sum()
    values = [cost.item() for cost in costs]
    for j, step in enumerate(steps):
        if not step.annotated:
            score_weight = sum(values[j + 1 :] if estimator == "rao-blackwell" else values) - baselines[j]
            total = total + score_weight * step.log_q[step.choice]
    return total


def step_baseline(
    walks: list[list[list[NaiveStep]]], costs: list[list[list[Tensor]]], n: int, k: int, time: int, settings: Any
) -> float:
    """The baseline of a step at some time in walk k of trace n; `walks` and `costs` are by trace, walk and step.

    Estimators whose weights are the whole cost count from time 0, `rao-blackwell` from the time of the step.
    """
    since = time if settings.estimator == "rao-blackwell" else 0

    def cost_from(trace: int, walk: int, start: int) -> float:
        pairs = zip(walks[trace][walk], costs[trace][walk], strict=True)
        return float(sum(cost.item() for step, cost in pairs if step.time >= start))

    if settings.baseline == "none":
        return 0.0
    if settings.baseline == "leave-one-out" and settings.samples > 1:
        other_walks = [walk for walk in range(settings.samples) if walk != k]
        return float(sum(cost_from(n, walk, since) for walk in other_walks) / len(other_walks))
    other_traces = [trace for trace in range(len(walks)) if trace != n]
    if not other_traces:
        return 0.0
    durations = [of_trace[0][-1].time + 1 for of_trace in walks]
    whole = sum(cost_from(trace, walk, 0) for trace in other_traces for walk in range(settings.samples))
    rate = whole / settings.samples / sum(durations[trace] for trace in other_traces)
    return float(rate * (durations[n] - since))


def kl_divergence(step: NaiveStep) -> Tensor:
    """D[q(u_i|·) ‖ p(u_i|·)]."""
    possible = step.log_q > -torch.inf
    return (step.log_q.exp() * (step.log_q - step.log_p))[possible].sum()


def posterior_entropy(step: NaiveStep) -> Tensor:
    """H[q(u_i|·)]."""
    possible = step.log_q > -torch.inf
    return -(step.log_q.exp() * step.log_q)[possible].sum()


def choose(log_q: Float[Tensor, "U"], possible: list[int], uniform: float, greedy: bool) -> int:
    """The most likely choice, or the first whose cumulative probability exceeds the uniform number."""
    if greedy:
        return max(possible, key=lambda choice: log_q[choice].item())
    cumulative = 0.0
    for choice in possible:
        cumulative += log_q[choice].double().exp().item()
        if cumulative > uniform:
            return choice
    return possible[-1]


def log_probs(
    bank: MlpBank | ModuleBank, learner: HvilLearner, features: Float[Tensor, "D"], frame: Frame, possible: list[int]
) -> Float[Tensor, "U"]:
    """The procedure's network on features and frame, normalised over the possible choices."""
    extra = features.new_tensor(frame_inputs(learner, frame))
    if isinstance(bank, MlpBank):
        h = frame.procedure
        hidden = torch.relu(torch.cat([features, extra]) @ bank.weight1[h] + bank.bias1[h])
        scores = hidden @ bank.weight2[h] + bank.bias2[h]
    else:
        scores = bank.networks[frame.procedure](features[None], extra[None])[0]
    masked = torch.full_like(scores, -torch.inf)
    masked[possible] = scores[possible].log_softmax(0)
    return masked


def log_density(learner: HvilLearner, features: Float[Tensor, "D"], frame: Frame, trace: Traces, time: int) -> Tensor:
    """Log N(a_t | μ, σ) of the continuous action at some time under the procedure of a frame."""
    head, scale = learner.policy_network.head, learner.config.actions
    assert head is not None
    assert scale is not None
    assert trace.vectors is not None
    h = frame.procedure
    x = torch.cat([features, features.new_tensor(frame_inputs(learner, frame))])
    if isinstance(head.means, MlpBank):
        hidden = torch.relu(x @ head.means.weight1[h] + head.means.bias1[h])
        means = hidden @ head.means.weight2[h] + head.means.bias2[h]
    else:
        means = x @ head.means.weight[h] + head.means.bias[h]
    deviations = learner.config.model.action_noise + head.log_excess[h].exp()
    vector = features.new_tensor((trace.vectors[time] - np.array(scale.means)) / np.array(scale.scales))
    total: Tensor = torch.distributions.Normal(means, deviations).log_prob(vector).sum()  # type: ignore[no-untyped-call]
    return total


def frame_inputs(learner: HvilLearner, frame: Frame) -> list[float]:
    """What the settings ask for: numbers of the counter τ, and the last step one-hot."""
    settings = learner.config.model
    numbers: list[float] = []
    if settings.frame_inputs in ("both", "counter"):
        tau = frame.counter
        numbers += [float(tau)] if "raw" in settings.counter.split("+") else []
        for part in settings.counter.split("+"):
            if part.startswith("hot"):
                numbers += [float(tau == n) for n in range(int(part[3:]) + 1)]
            elif part.startswith("step"):
                numbers += [float(tau >= n) for n in range(1, int(part[4:]) + 1)]
            elif part != "raw":
                bound, scale = map(int, part.split("/"))
                numbers.append(min(tau, bound) / scale)
    if settings.frame_inputs in ("both", "last"):
        numbers += [float(frame.last == choice) for choice in range(learner.config.graph.step_count)]
    return numbers


def feature_rows(learner: HvilLearner, trace: Traces) -> Float[Tensor, "R D"]:
    """What the networks see of the observations of one trace: flat numbers, bytes as 0..1."""
    scale = 255 if trace.observations.dtype == np.uint8 else 1
    flat = trace.observations.reshape(len(trace.observations), -1).astype(np.float32) / np.float32(scale)
    return torch.from_numpy(flat).to(next(learner.parameters()))


def posterior_contexts(learner: HvilLearner, trace: Traces, features: Float[Tensor, "R D"]) -> Float[Tensor, "R B"]:
    """b_t at each time of one trace: a forward and a backward LSTM over observations and actions."""
    posterior, sees = learner.posterior, learner.config.model.posterior_sees
    if sees == "no-final":
        features = torch.cat([features[:-1], torch.zeros_like(features[-1:])])
    encoder = posterior.encoder or learner.policy_network.encoder
    if encoder is not None:
        features = encoder(features)
    actions = torch.eye(len(trace.action_names) + 1).to(features)
    x = torch.cat([features, actions[[*trace.actions.tolist(), len(trace.action_names)]]], dim=1)
    scale = learner.config.actions
    if trace.vectors is not None and scale is not None:
        vectors = (trace.vectors - np.array(scale.means)) / np.array(scale.scales)
        x = torch.cat([x, features.new_tensor(np.append(vectors, np.zeros((1, scale.width)), axis=0))], dim=1)
    past: Tensor = posterior.past(x)[0]
    if posterior.future is None:
        return past
    return torch.cat([past, posterior.future(x.flip(0))[0].flip(0)], dim=1)
