"""The objective and its gradient over sampled steps, compiled: what `elbo`, `estimators` and `control_variates` say.

The gradients with respect to the networks' scores (the logits) have closed forms. With f_u = (1+w)·log q_u − log p_u,
an analytic cost is c = Σ_u q_u f_u, and

    ∂c/∂(score of v under q) = q_v (f_v − c),    ∂c/∂(score of v under p) = p_v − q_v.

A choice may have a factor: something that is added to its log p_u and has no part in the soft-max, such as the density
of a continuous action or the effect of a return. Costs and f_u are then made of the weighed log p_u; p_v in the
gradient is still the soft-max.

The price λf(τ) of long procedures is added to each cost. It depends on the steps before and not on the scores of this
one, so it enters the gradient through the weights of earlier scores alone.

A sampled or annotated cost is made of log q_u and log p_u of the step u alone: ∂log q_u/∂(score of v) = 1[u=v] − q_v,
and the same for p. What weighs ∇log q_u is called the score weight, after the score function ∇log q_u.

Letters in loops: i steps, u choices, h procedures, j inputs, k hidden units.
"""

from typing import no_type_check

import numpy as np
from numba import njit

from hvil.learners.networks.lstm_kernels import add_product
from hvil.machine.kernels import log_probabilities

SCORE, ANALYTIC, RAO_BLACKWELL = 0, 1, 2
NO_BASELINE, OTHERS, LEAVE_ONE_OUT = 0, 1, 2

_OPTIONS = {"cache": True, "nogil": True, "fastmath": {"contract", "nsz"}, "error_model": "numpy"}


@njit(**_OPTIONS)
@no_type_check
def policy_log_probabilities(net, features, walk, hidden, log_p):
    """Write hidden units and log-probabilities of the policy at every step to `hidden` and `log_p`."""
    steps = walk.steps
    for i in range(steps.row.shape[0]):
        log_probabilities(
            net,
            steps.procedure[i],
            features[steps.row[i]],
            steps.counter[i],
            steps.last[i],
            walk.policy_possible[i],
            hidden[i],
            log_p[i],
        )


@njit(**_OPTIONS)
@no_type_check
def _choice_count(walk, i):
    """How many choices the posterior has at a step."""
    count = 0
    for u in range(walk.posterior_possible.shape[1]):
        count += walk.posterior_possible[i, u]
    return count


@njit(**_OPTIONS)
@no_type_check
def _step_cost(walk, i, log_q, log_p, entropy_weight, estimator):
    """c_i without its price, D[q ‖ p] and H[q]; where there is one choice, log q is 0, whatever the array holds."""
    choice = walk.steps.choice[i]
    several = _choice_count(walk, i) > 1
    kl, entropy = 0.0, 0.0
    if several:
        for u in range(log_q.shape[1]):
            if walk.posterior_possible[i, u]:
                q = np.exp(np.float64(log_q[i, u]))
                kl += q * (log_q[i, u] - log_p[i, u])
                entropy -= q * log_q[i, u]
    else:
        kl = -np.float64(log_p[i, choice])
    taken = np.float64(log_q[i, choice]) if several else 0.0
    if walk.annotated[i]:
        return -log_p[i, choice] - taken, kl, entropy
    if estimator == SCORE:
        return (1.0 + entropy_weight) * taken - log_p[i, choice], kl, entropy
    return kl - entropy_weight * entropy, kl, entropy


@njit(**_OPTIONS)
@no_type_check
def _score_weights(costs, first, end, estimator, weights):
    """Write the score weights of one walk's steps, before baselines: the cost to come, or the whole cost."""
    to_come = 0.0
    for j in range(end - 1, first - 1, -1):
        weights[j] = to_come
        to_come += costs[j]
    if estimator != RAO_BLACKWELL:
        for j in range(first, end):
            weights[j] = to_come


@njit(**_OPTIONS)
@no_type_check
def _subtract_others(walk, row_offsets, costs, estimator, weights):
    """Subtract the baseline `others`: the other traces' mean cost per time step, multiplied by the time steps left."""
    steps = walk.steps
    traces = row_offsets.shape[0] - 1
    if traces == 1:
        return
    samples = (steps.offsets.shape[0] - 1) // traces
    of_trace = np.zeros(traces)  # the mean cost of a walk of each trace
    for trace in range(traces):
        for i in range(steps.offsets[trace * samples], steps.offsets[(trace + 1) * samples]):
            of_trace[trace] += costs[i] / samples
    whole = of_trace.sum()
    for trace in range(traces):
        duration = row_offsets[trace + 1] - row_offsets[trace]
        rate = (whole - of_trace[trace]) / (row_offsets[traces] - row_offsets[0] - duration)
        for i in range(steps.offsets[trace * samples], steps.offsets[(trace + 1) * samples]):
            since = steps.row[i] - row_offsets[trace] if estimator == RAO_BLACKWELL else 0
            weights[i] -= rate * (duration - since)


@njit(**_OPTIONS)
@no_type_check
def _subtract_leave_one_out(walk, row_offsets, costs, estimator, weights):
    """Subtract the baseline `leave-one-out`: what the trace's other walks cost, on average, from the same time on."""
    steps = walk.steps
    traces = row_offsets.shape[0] - 1
    samples = (steps.offsets.shape[0] - 1) // traces
    longest = 0
    for trace in range(traces):
        longest = max(longest, row_offsets[trace + 1] - row_offsets[trace])
    to_end = np.empty((samples, longest))  # each walk's cost from each time on
    of_trace = np.empty(longest)  # the sum of these over the trace's walks
    for trace in range(traces):
        duration = row_offsets[trace + 1] - row_offsets[trace]
        to_end[:, :duration] = 0.0
        of_trace[:duration] = 0.0
        for sample in range(samples):
            walk_number = trace * samples + sample
            for i in range(steps.offsets[walk_number], steps.offsets[walk_number + 1]):
                to_end[sample, steps.row[i] - row_offsets[trace]] += costs[i]
            for t in range(duration - 2, -1, -1):
                to_end[sample, t] += to_end[sample, t + 1]
            for t in range(duration):
                of_trace[t] += to_end[sample, t]
        for sample in range(samples):
            walk_number = trace * samples + sample
            for i in range(steps.offsets[walk_number], steps.offsets[walk_number + 1]):
                since = steps.row[i] - row_offsets[trace] if estimator == RAO_BLACKWELL else 0
                weights[i] -= (of_trace[since] - to_end[sample, since]) / (samples - 1)


@njit(**_OPTIONS)
@no_type_check
def _step_gradients(
    walk, i, log_q, log_p, weighed, entropy_weight, estimator, cost, score_weight, grad_scores_q, grad_scores_p
):
    """Write the gradients of one step with respect to the scores of q and p."""
    choice = walk.steps.choice[i]
    several = _choice_count(walk, i) > 1
    annotated = walk.annotated[i]
    one_target = annotated or estimator == SCORE or not several
    for u in range(log_q.shape[1]):
        target = 1.0 if u == choice else 0.0
        q = 0.0
        gradient = 0.0
        if several and walk.posterior_possible[i, u]:
            q = np.exp(np.float64(log_q[i, u]))
            if annotated:
                gradient = q - target
            elif estimator == SCORE:
                gradient = (1.0 + entropy_weight + score_weight) * (target - q)
            else:
                f = (1.0 + entropy_weight) * log_q[i, u] - weighed[i, u]
                gradient = q * (f - cost) + score_weight * (target - q)
        grad_scores_q[i, u] = gradient
        if walk.policy_possible[i, u]:
            grad_scores_p[i, u] = np.exp(np.float64(log_p[i, u])) - (target if one_target else q)
        else:
            grad_scores_p[i, u] = 0.0


@njit(**_OPTIONS)
@no_type_check
def objective(walk, row_offsets, log_q, log_p, weighed, entropy_weight, estimator, baseline, prices):
    """The estimator's value, Σ D[q ‖ p], Σ H[q], and the gradients with respect to the scores of q and of p.

    `weighed` is `log_p` with the factors of the choices.
    First the costs of all steps and their score weights, walk by walk, then the baselines, then the gradients.
    """
    offsets = walk.steps.offsets
    costs = np.empty(log_q.shape[0])
    score_weights = np.empty(log_q.shape[0])
    grad_scores_q = np.empty_like(log_q)
    grad_scores_p = np.empty_like(log_p)
    value, total_kl, total_entropy = 0.0, 0.0, 0.0
    for walk_number in range(offsets.shape[0] - 1):
        first, end = offsets[walk_number], offsets[walk_number + 1]
        for i in range(first, end):
            cost, kl, entropy = _step_cost(walk, i, log_q, weighed, entropy_weight, estimator)
            costs[i] = cost + prices[i]
            total_kl += kl
            total_entropy += entropy
        _score_weights(costs, first, end, estimator, score_weights)
    several_walks = offsets.shape[0] > row_offsets.shape[0]  # of each trace
    if baseline == LEAVE_ONE_OUT and several_walks:
        _subtract_leave_one_out(walk, row_offsets, costs, estimator, score_weights)
    elif baseline != NO_BASELINE:
        _subtract_others(walk, row_offsets, costs, estimator, score_weights)
    for i in range(costs.shape[0]):
        value += costs[i]
        if not walk.annotated[i] and _choice_count(walk, i) > 1:
            value += score_weights[i] * log_q[i, walk.steps.choice[i]]
        _step_gradients(
            walk,
            i,
            log_q,
            log_p,
            weighed,
            entropy_weight,
            estimator,
            costs[i] - prices[i],
            score_weights[i],
            grad_scores_q,
            grad_scores_p,
        )
    return value, total_kl, total_entropy, grad_scores_q, grad_scores_p


@njit(**_OPTIONS)
@no_type_check
def choice_counts(walk, log_q, estimator, choice, counts):
    """Write how often a choice counts in the cost of each step: q of it, or 1 where the step's cost is of it alone."""
    for i in range(log_q.shape[0]):
        counts[i] = 0.0
        if walk.posterior_possible[i, choice]:
            several = _choice_count(walk, i) > 1
            if walk.annotated[i] or estimator == SCORE or not several:
                counts[i] = 1.0 if walk.steps.choice[i] == choice else 0.0
            else:
                counts[i] = np.exp(np.float64(log_q[i, choice]))


@njit(**_OPTIONS)
@no_type_check
def bank_gradients(
    net, transposed1, transposed2, features, walk, only_choices, hidden, grad_scores, grads, grad_features
):
    """Carry the gradients of a bank's scores on: add to `grads` those of its weights, to `grad_features` of features.

    Features without a gradient have a `grad_features` without rows. With `only_choices` the steps at which the
    posterior has one choice are left out. Shapes: `transposed1` (H, K, features), `transposed2` and `grads.weight2`
    (H, U, K).
    """
    steps = walk.steps
    weight1, bias1, weight2, bias2 = grads.weight1, grads.bias1, grads.weight2, grads.bias2
    units = hidden.shape[1]
    choices = grad_scores.shape[1]
    width = features.shape[1]
    back = np.empty(units, dtype=np.float32)
    for i in range(steps.row.shape[0]):
        if only_choices and _choice_count(walk, i) == 1:
            continue
        h = steps.procedure[i]
        row = steps.row[i]
        units_i = hidden[i]
        for k in range(units):
            back[k] = 0.0
        for u in range(choices):
            g = grad_scores[i, u]
            if g != 0.0:
                bias2[h, u] += g
                for k in range(units):
                    back[k] += g * transposed2[h, u, k]
                for k in range(units):
                    weight2[h, u, k] += g * max(units_i[k], np.float32(0.0))
        for k in range(units):
            back[k] = back[k] if units_i[k] > 0.0 else np.float32(0.0)
            bias1[h, k] += back[k]
        for j in range(width):
            x = features[row, j]
            if x != 0.0:
                for k in range(units):
                    weight1[h, j, k] += x * back[k]
        column = width  # the frame's inputs come after the features
        if net.sees_counter:
            x = np.float32(steps.counter[i])
            for k in range(units):
                weight1[h, column, k] += x * back[k]
            column += 1
        count = min(steps.counter[i], net.counter_table.shape[0] - 1)
        for c in range(net.counter_table.shape[1]):
            x = net.counter_table[count, c]
            if x != 0.0:
                for k in range(units):
                    weight1[h, column, k] += x * back[k]
            column += 1
        if net.sees_last and steps.last[i] >= 0:
            for k in range(units):
                weight1[h, column + steps.last[i], k] += back[k]
        if grad_features.shape[0] > 0:
            add_product(back, transposed1[h], grad_features[row])
