"""The stack machine, compiled: the posterior's walk over traces, and the policy run in many environments.

Equal, step for step, to `reference` with the same networks and uniform numbers (tests show it). Frames are kept in
arrays `procedures, counters, lasts` with `height` of them in use.
"""

from typing import no_type_check

import numpy as np
from numba import njit

# No reordering of sums: the same rounding wherever a function is inlined, so that a policy acts alike in a roll-out and
# along a trace.
_OPTIONS = {"cache": True, "nogil": True, "fastmath": {"contract"}}


@njit(**_OPTIONS)
@no_type_check
def log_probabilities(net, procedure, features, counter, last, possible, hidden, scores):
    """Masked log-softmax of one procedure's network, into `scores`; `hidden` keeps the units before the ReLU."""
    weight1 = net.weight1[procedure]
    width = features.shape[0]
    units = hidden.shape[0]
    for k in range(units):
        hidden[k] = net.bias1[procedure, k]
    j = 0
    while j < width:
        # Four dense rows at a time; zeros, the most of a one-hot observation, are skipped.
        if j + 4 <= width and features[j] != 0.0 and features[j + 1] != 0.0:
            a, b, c, d = features[j], features[j + 1], features[j + 2], features[j + 3]
            for k in range(units):
                hidden[k] += (a * weight1[j, k] + b * weight1[j + 1, k]) + (
                    c * weight1[j + 2, k] + d * weight1[j + 3, k]
                )
            j += 4
        else:
            x = features[j]
            if x != 0.0:
                for k in range(units):
                    hidden[k] += x * weight1[j, k]
            j += 1
    row = width
    if net.sees_counter:
        x = np.float32(counter)
        for k in range(units):
            hidden[k] += x * weight1[row, k]
        row += 1
        if net.counter_limit > 0:
            if counter <= net.counter_limit:
                for k in range(units):
                    hidden[k] += weight1[row + counter, k]
            row += net.counter_limit + 1
    if net.sees_last and last >= 0:
        for k in range(units):
            hidden[k] += weight1[row + last, k]
    weight2 = net.weight2[procedure]
    choices = scores.shape[0]
    for u in range(choices):
        scores[u] = net.bias2[procedure, u]
    # No branch on the ReLU: half of them would be mispredicted.
    zero = np.float32(0.0)
    whole = units - units % 4
    for k in range(0, whole, 4):
        a, b = max(hidden[k], zero), max(hidden[k + 1], zero)
        c, d = max(hidden[k + 2], zero), max(hidden[k + 3], zero)
        for u in range(choices):
            scores[u] += (a * weight2[k, u] + b * weight2[k + 1, u]) + (c * weight2[k + 2, u] + d * weight2[k + 3, u])
    for k in range(whole, units):
        for u in range(choices):
            scores[u] += max(hidden[k], zero) * weight2[k, u]
    largest = np.float32(-np.inf)
    for u in range(choices):
        if possible[u] and scores[u] > largest:
            largest = scores[u]
    total = np.float32(0.0)
    for u in range(choices):
        if possible[u]:
            total += np.exp(scores[u] - largest)
    normaliser = largest + np.log(total)
    for u in range(choices):
        scores[u] = scores[u] - normaliser if possible[u] else np.float32(-np.inf)


@njit(**_OPTIONS)
@no_type_check
def policy_possible(graph, procedure, counter, height, possible):
    """Mask of the policy (`reference.policy_steps`); returns how many steps are possible."""
    actions = graph.can_act.shape[1]
    count = 0
    for a in range(actions):
        possible[a] = graph.can_act[procedure, a]
        count += possible[a]
    possible[actions] = counter > 0
    count += possible[actions]
    for k in range(graph.children.shape[1]):
        callee = graph.children[procedure, k]
        possible[actions + 1 + k] = callee >= 0 and graph.reaches_any[graph.max_depth - height, callee]
        count += possible[actions + 1 + k]
    return count


@njit(**_OPTIONS)
@no_type_check
def posterior_possible(graph, procedures, height, counter, action, possible):
    """Mask of the posterior (`reference.posterior_steps`); returns how many steps are possible."""
    actions = graph.can_act.shape[1]
    procedure = procedures[height - 1]
    possible[:] = False
    if action == actions:
        possible[actions] = True
        return 1
    count = 0
    if graph.can_act[procedure, action]:
        possible[action] = True
        count += 1
    if counter > 0:
        for below in range(height - 1):
            if graph.reaches[graph.max_depth - below, procedures[below], action]:
                possible[actions] = True
                count += 1
                break
    for k in range(graph.children.shape[1]):
        callee = graph.children[procedure, k]
        if callee >= 0 and graph.reaches[graph.max_depth - height, callee, action]:
            possible[actions + 1 + k] = True
            count += 1
    return count


@njit(**_OPTIONS)
@no_type_check
def machine_step(graph, procedures, counters, lasts, height, choice):
    """Algorithm 1 of the paper; returns the new height."""
    actions = graph.can_act.shape[1]
    top = height - 1
    if choice == actions:
        return top
    counters[top] += 1
    lasts[top] = choice
    if choice > actions:
        procedures[height] = graph.children[procedures[top], choice - actions - 1]
        counters[height] = 0
        lasts[height] = -1
        return height + 1
    return height


@njit(**_OPTIONS)
@no_type_check
def choose(scores, possible, uniform):
    """Inverse of the distribution function: the first possible choice whose cumulative probability exceeds u."""
    total = 0.0
    chosen = -1
    for u in range(scores.shape[0]):
        if possible[u]:
            chosen = u
            total += np.exp(np.float64(scores[u]))
            if total > uniform:
                break
    return chosen


@njit(**_OPTIONS)
@no_type_check
def most_likely(scores, possible):
    """The first of the most likely choices."""
    chosen = -1
    for u in range(scores.shape[0]):
        if possible[u] and (chosen < 0 or scores[u] > scores[chosen]):
            chosen = u
    return chosen


@njit(**_OPTIONS)
@no_type_check
def _kept_frames(known, kept, procedures, height):
    """How many frames survive when the stack at this time is known."""
    shared = 0
    while shared < height and shared < known.shape[0] and known[shared] == procedures[shared]:
        shared += 1
    return shared if kept < 0 else min(kept, shared)


@njit(**_OPTIONS)
@no_type_check
def _guided(graph, known, keep, procedures, height, action, popping):
    """The step that leads towards the known stack."""
    actions = graph.can_act.shape[1]
    if popping and height > keep:
        return actions
    if height < known.shape[0] and known[height] >= 0:
        for k in range(graph.children.shape[1]):
            if graph.children[procedures[height - 1], k] == known[height]:
                return actions + 1 + k
    return action


@njit(**_OPTIONS)
@no_type_check
def walk(graph, net, context, emitted, rows, guide, uniforms, uniform_offsets, greedy, steps, hidden, scores):
    """Sample the posterior's steps for every trace into `steps`; one uniform number a step.

    `emitted` is the action at each row, ∅ at a trace's last; `rows` where each trace's rows begin. `hidden` and
    `scores` keep the hidden units and log-probabilities of each step, for the gradient; a step without choice has none.
    """
    actions = graph.can_act.shape[1]
    procedures = np.empty(graph.max_depth + 1, dtype=np.int64)
    counters = np.empty(graph.max_depth + 1, dtype=np.int64)
    lasts = np.empty(graph.max_depth + 1, dtype=np.int64)
    at = 0
    for trace in range(rows.shape[0] - 1):
        row = rows[trace]
        height = 1
        procedures[0], counters[0], lasts[0] = graph.root, 0, -1
        first = at
        known, popping, keep = False, False, 0
        arrived = True
        while height > 0:
            action = emitted[row]
            if arrived:
                arrived = False
                known = action < actions and guide.stacks[row - trace, 0] >= 0
                if known:
                    keep = _kept_frames(guide.stacks[row - trace], guide.kept[row - trace], procedures, height)
                    popping = height > keep
            top = height - 1
            possible = steps.posterior_possible[at]
            count = posterior_possible(graph, procedures, height, counters[top], action, possible)
            policy_possible(graph, procedures[top], counters[top], height, steps.policy_possible[at])
            if count > 1:
                log_probabilities(
                    net, procedures[top], context[row], counters[top], lasts[top], possible, hidden[at], scores[at]
                )
            if known:
                popping = popping and height > keep
                choice = _guided(graph, guide.stacks[row - trace], keep, procedures, height, action, popping)
            elif greedy or count == 1:
                choice = most_likely(scores[at], possible)
            else:
                choice = choose(scores[at], possible, uniforms[uniform_offsets[trace] + at - first])
            steps.row[at] = row
            steps.procedure[at] = procedures[top]
            steps.counter[at] = counters[top]
            steps.last[at] = lasts[top]
            steps.depth[at] = height
            steps.choice[at] = choice
            steps.known[at] = known
            height = machine_step(graph, procedures, counters, lasts, height, choice)
            at += 1
            if choice < actions:
                row += 1
                arrived = True
        steps.offsets[trace + 1] = at


@njit(**_OPTIONS)
@no_type_check
def act(graph, net, features, procedures, counters, lasts, heights, uniforms, greedy, chosen, taken):
    """Run the policy in each environment until it acts or ends; `taken` counts PHP steps, height 0 is an ended one."""
    actions = graph.can_act.shape[1]
    hidden = np.empty(net.bias1.shape[1], dtype=np.float32)
    scores = np.empty(net.bias2.shape[1], dtype=np.float32)
    possible = np.empty(net.bias2.shape[1], dtype=np.bool_)
    for i in range(features.shape[0]):
        chosen[i] = actions
        used = 0
        while heights[i] > 0:
            top = heights[i] - 1
            procedure = procedures[i, top]
            count = policy_possible(graph, procedure, counters[i, top], heights[i], possible)
            if count > 1:
                log_probabilities(
                    net, procedure, features[i], counters[i, top], lasts[i, top], possible, hidden, scores
                )
            if greedy or count == 1:
                choice = most_likely(scores, possible)
            else:
                choice = choose(scores, possible, uniforms[i, used])
            heights[i] = machine_step(graph, procedures[i], counters[i], lasts[i], heights[i], choice)
            used += 1
            taken[i] += 1
            if choice < actions:
                chosen[i] = choice
                break


@njit(**_OPTIONS)
@no_type_check
def follow(graph, net, observations, emitted, rows, wrong, taken, visits):
    """The greedy policy along teacher traces: which go wrong, the PHP steps of each, the calls of each procedure."""
    actions = graph.can_act.shape[1]
    procedures = np.empty(graph.max_depth + 1, dtype=np.int64)
    counters = np.empty(graph.max_depth + 1, dtype=np.int64)
    lasts = np.empty(graph.max_depth + 1, dtype=np.int64)
    hidden = np.empty(net.bias1.shape[1], dtype=np.float32)
    scores = np.empty(net.bias2.shape[1], dtype=np.float32)
    possible = np.empty(net.bias2.shape[1], dtype=np.bool_)
    for trace in range(rows.shape[0] - 1):
        procedures[0], counters[0], lasts[0], height = graph.root, 0, -1, 1
        visits[graph.root] += 1
        row = rows[trace]
        while height > 0:
            top = height - 1
            count = policy_possible(graph, procedures[top], counters[top], height, possible)
            if count > 1:
                log_probabilities(
                    net, procedures[top], observations[row], counters[top], lasts[top], possible, hidden, scores
                )
            choice = most_likely(scores, possible)
            taken[trace] += 1
            height = machine_step(graph, procedures, counters, lasts, height, choice)
            if choice > actions:
                visits[procedures[height - 1]] += 1
            elif choice < actions:
                if choice != emitted[row]:
                    break
                row += 1
        wrong[trace] = height > 0 or emitted[row] != actions
