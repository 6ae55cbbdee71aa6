"""The objective and its gradient over sampled steps, compiled: what `elbo` and `estimators` say, in one pass.

The gradients with respect to the scores have closed forms. With f_u = (1+w)·log q_u − log p_u and c = Σ_u q_u f_u:
∂c/∂(score of v under q) = q_v (f_v − c), ∂c/∂(score of v under p) = p_v − q_v, ∂log q(u)/∂(score of v) = 1[u=v] − q_v.
"""

from typing import no_type_check

import numpy as np
from numba import njit

from hvil.learners.networks.lstm_kernels import add_product
from hvil.machine.kernels import log_probabilities

SCORE, ANALYTIC, RAO_BLACKWELL = 0, 1, 2

_OPTIONS = {"cache": True, "nogil": True, "fastmath": {"contract", "nsz"}, "error_model": "numpy"}


@njit(**_OPTIONS)
@no_type_check
def policy_scores(net, observations, steps, hidden, scores):
    """Hidden units and log-probabilities of the policy at every step."""
    for i in range(steps.row.shape[0]):
        log_probabilities(
            net,
            steps.procedure[i],
            observations[steps.row[i]],
            steps.counter[i],
            steps.last[i],
            steps.policy_possible[i],
            hidden[i],
            scores[i],
        )


@njit(**_OPTIONS)
@no_type_check
def _step_cost(i, steps, log_q, log_p, weight, sampled, sums):
    """c_i; adds the KL and the entropy to the sums."""
    choice = steps.choice[i]
    divergence, spread = 0.0, 0.0
    choices = 0
    for u in range(log_q.shape[1]):
        if steps.posterior_possible[i, u]:
            choices += 1
    if choices == 1:
        divergence = -np.float64(log_p[i, choice])
    else:
        for u in range(log_q.shape[1]):
            if steps.posterior_possible[i, u]:
                q = np.exp(np.float64(log_q[i, u]))
                divergence += q * (log_q[i, u] - log_p[i, u])
                spread -= q * log_q[i, u]
    sums[0] += divergence
    sums[1] += spread
    taken = np.float64(log_q[i, choice]) if choices > 1 else 0.0
    if steps.known[i]:
        return -log_p[i, choice] - taken
    if sampled:
        return (1.0 + weight) * taken - log_p[i, choice]
    return divergence - weight * spread


@njit(**_OPTIONS)
@no_type_check
def objective(steps, log_q, log_p, weight, estimator, sums):
    """The estimator's value; `log_q` and `log_p` leave as the gradients with respect to the scores.

    `sums` receives the KL and the entropy, summed over the batch.
    """
    choices = log_q.shape[1]
    costs = np.empty(log_q.shape[0])
    value = 0.0
    for trace in range(steps.offsets.shape[0] - 1):
        first, end = steps.offsets[trace], steps.offsets[trace + 1]
        whole = 0.0
        for i in range(first, end):
            costs[i] = _step_cost(i, steps, log_q, log_p, weight, estimator == SCORE, sums)
            whole += costs[i]
        value += whole
        after = 0.0
        for i in range(end - 1, first - 1, -1):
            choice = steps.choice[i]
            count = 0
            for u in range(choices):
                count += steps.posterior_possible[i, u]
            weighs = after if estimator == RAO_BLACKWELL else whole
            after += costs[i]
            sure = steps.known[i] or estimator == SCORE
            if not steps.known[i] and count > 1:
                value += weighs * log_q[i, choice]
            for u in range(choices):
                target = 1.0 if u == choice else 0.0
                q = 0.0
                gradient = 0.0
                if count > 1 and steps.posterior_possible[i, u]:
                    q = np.exp(np.float64(log_q[i, u]))
                    if steps.known[i]:
                        gradient = q - target
                    elif estimator == SCORE:
                        gradient = (1.0 + weight + weighs) * (target - q)
                    else:
                        f = (1.0 + weight) * log_q[i, u] - log_p[i, u]
                        gradient = q * (f - costs[i]) + weighs * (target - q)
                log_q[i, u] = gradient
                wanted = target if sure or count == 1 else q
                p = np.exp(np.float64(log_p[i, u])) if steps.policy_possible[i, u] else 0.0
                log_p[i, u] = p - wanted if steps.policy_possible[i, u] else 0.0
    return value


@njit(**_OPTIONS)
@no_type_check
def gradients(net, transposed1, transposed2, features, steps, only_choices, hidden, grad_scores, grads, grad_features):
    """From the gradients of the scores to those of the weights and, if it has rows, of the features.

    `transposed1` is (H, K, features), `transposed2` (H, U, K); `grads` are weight1, bias1, weight2 (H, U, K), bias2.
    """
    weight1, bias1, weight2, bias2 = grads
    units = hidden.shape[1]
    choices = grad_scores.shape[1]
    width = features.shape[1]
    back = np.empty(units, dtype=np.float32)
    for i in range(steps.row.shape[0]):
        if only_choices:
            count = 0
            for u in range(choices):
                count += steps.posterior_possible[i, u]
            if count == 1:
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
        at = width
        if net.sees_counter:
            x = np.float32(steps.counter[i])
            for k in range(units):
                weight1[h, at, k] += x * back[k]
            at += 1
            if net.counter_limit > 0:
                if steps.counter[i] <= net.counter_limit:
                    for k in range(units):
                        weight1[h, at + steps.counter[i], k] += back[k]
                at += net.counter_limit + 1
        if net.sees_last and steps.last[i] >= 0:
            for k in range(units):
                weight1[h, at + steps.last[i], k] += back[k]
        if grad_features.shape[0] > 0:
            add_product(back, transposed1[h], grad_features[row])
