"""The stack machine, compiled: the posterior's walk over traces, and the policy run in many environments.

It takes the same steps as `reference` with the same networks and uniform numbers (tests show it). A stack is three
arrays `procedures, counters, lasts`, of which the first `height` entries are in use. Results go into arrays that the
caller provides.

Letters in loops: u choices, a actions, j inputs, k hidden units or callees.
"""

from typing import no_type_check

import numpy as np
from numba import njit

# Sums are not reordered: rounding is then the same wherever a function is inlined, and a policy acts alike in a
# roll-out and along a trace.
_OPTIONS = {"cache": True, "nogil": True, "fastmath": {"contract"}}


@njit(**_OPTIONS)
@no_type_check
def log_probabilities(net, procedure, features, counter, last, possible, hidden, scores):
    """Write the masked log-softmax of one procedure's network to `scores`, its units before the ReLU to `hidden`."""
    weight1 = net.weight1[procedure]
    width = features.shape[0]
    units = hidden.shape[0]
    for k in range(units):
        hidden[k] = net.bias1[procedure, k]
    j = 0
    while j < width:
        # Dense features go four at a time. Zeros are skipped: most features of a one-hot observation are zero.
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
    j = width  # the frame's inputs come after the features
    if net.sees_counter:
        x = np.float32(counter)
        for k in range(units):
            hidden[k] += x * weight1[j, k]
        j += 1
    row = min(counter, net.counter_table.shape[0] - 1)
    for c in range(net.counter_table.shape[1]):
        x = net.counter_table[row, c]
        if x != 0.0:
            for k in range(units):
                hidden[k] += x * weight1[j, k]
        j += 1
    if net.sees_last and last >= 0:
        for k in range(units):
            hidden[k] += weight1[j + last, k]
    weight2 = net.weight2[procedure]
    choices = scores.shape[0]
    for u in range(choices):
        scores[u] = net.bias2[procedure, u]
    # The ReLU is a maximum and not a branch: half of the branches would be mispredicted.
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
    """Write the policy's mask (`reference.policy_steps`) to `possible`; return how many steps are possible."""
    terminate = graph.terminate
    count = 0
    for a in range(terminate):
        possible[a] = graph.can_act[procedure, a]
        count += possible[a]
    possible[terminate] = counter > 0
    count += possible[terminate]
    for k in range(graph.children.shape[1]):
        callee = graph.children[procedure, k]
        possible[terminate + 1 + k] = callee >= 0 and graph.reaches_any[graph.max_depth - height, callee]
        count += possible[terminate + 1 + k]
    return count


@njit(**_OPTIONS)
@no_type_check
def posterior_possible(graph, procedures, height, counter, emitted, possible):
    """Write the posterior's mask (`reference.posterior_steps`) to `possible`; return how many steps are possible."""
    terminate = graph.terminate
    procedure = procedures[height - 1]
    possible[:] = False
    if emitted == terminate:
        possible[terminate] = True
        return 1
    count = 0
    if graph.can_act[procedure, emitted]:
        possible[emitted] = True
        count += 1
    if counter > 0:
        for below in range(height - 1):
            if graph.reaches[graph.max_depth - below, procedures[below], emitted]:
                possible[terminate] = True
                count += 1
                break
    for k in range(graph.children.shape[1]):
        callee = graph.children[procedure, k]
        if callee >= 0 and graph.reaches[graph.max_depth - height, callee, emitted]:
            possible[terminate + 1 + k] = True
            count += 1
    return count


@njit(**_OPTIONS)
@no_type_check
def posterior_masks(graph, steps, emitted, possible):
    """Write the posterior's mask at each of given steps to `possible`."""
    procedures = np.empty(graph.max_depth + 1, dtype=np.int64)
    for i in range(steps.row.shape[0]):
        height = steps.depth[i]
        procedures[height - 1] = steps.procedure[i]  # those below were the top when they called
        posterior_possible(graph, procedures, height, steps.counter[i], emitted[steps.row[i]], possible[i])


@njit(**_OPTIONS)
@no_type_check
def machine_step(graph, procedures, counters, lasts, height, choice):
    """Take a step (paper, Algorithm 1; `reference.step`); return the new height."""
    terminate = graph.terminate
    top = height - 1
    if choice == terminate:
        return top
    counters[top] += 1
    lasts[top] = choice
    if choice > terminate:
        procedures[height] = graph.children[procedures[top], choice - terminate - 1]
        counters[height] = 0
        lasts[height] = -1
        return height + 1
    return height


@njit(**_OPTIONS)
@no_type_check
def choose(scores, possible, uniform):
    """Invert the distribution function: the first possible choice whose cumulative probability exceeds `uniform`."""
    total = 0.0
    choice = -1
    for u in range(scores.shape[0]):
        if possible[u]:
            choice = u
            total += np.exp(np.float64(scores[u]))
            if total > uniform:
                break
    return choice


@njit(**_OPTIONS)
@no_type_check
def most_likely(scores, possible):
    """The first of the most likely choices."""
    choice = -1
    for u in range(scores.shape[0]):
        if possible[u] and (choice < 0 or scores[u] > scores[choice]):
            choice = u
    return choice


@njit(**_OPTIONS)
@no_type_check
def _frames_to_keep(wanted, kept, procedures, height):
    """How many frames stay at a time whose stack is annotated: the annotated number, if so many are shared."""
    shared = 0
    while shared < height and shared < wanted.shape[0] and wanted[shared] == procedures[shared]:
        shared += 1
    return shared if kept < 0 else min(kept, shared)


@njit(**_OPTIONS)
@no_type_check
def _step_towards(graph, wanted, procedures, height, emitted, returning):
    """The next step towards an annotated stack (`reference.steps_towards`): a return, a call, or the action."""
    if returning:
        return graph.terminate
    if height < wanted.shape[0] and wanted[height] >= 0:
        for k in range(graph.children.shape[1]):
            if graph.children[procedures[height - 1], k] == wanted[height]:
                return graph.terminate + 1 + k
    return emitted


@njit(**_OPTIONS)
@no_type_check
def walk(graph, net, context, emitted, row_offsets, guide, uniforms, uniform_offsets, greedy, taken, hidden, log_q):
    """Sample the posterior's steps of every walk into the `Walk` `taken`, with one uniform number a step.

    `uniform_offsets` says where the numbers of each walk begin; the walks of a trace stand together; every trace has
    equally many. `hidden` and `log_q` keep the hidden units and log-probabilities of each step for the
    gradient; they are not filled where there is only one choice.
    """
    steps = taken.steps
    procedures = np.empty(graph.max_depth + 1, dtype=np.int64)
    counters = np.empty(graph.max_depth + 1, dtype=np.int64)
    lasts = np.empty(graph.max_depth + 1, dtype=np.int64)
    samples = (uniform_offsets.shape[0] - 1) // (row_offsets.shape[0] - 1)
    i = 0
    for walk_number in range(uniform_offsets.shape[0] - 1):
        trace = walk_number // samples
        row = row_offsets[trace]
        height = 1
        procedures[0], counters[0], lasts[0] = graph.root, 0, -1
        first = i
        annotated, returning, keep = False, False, 0
        new_time = True
        while height > 0:
            action = row - trace  # a trace has one row more than actions
            if new_time:
                new_time = False
                annotated = emitted[row] != graph.terminate and guide.stacks[action, 0] >= 0
                if annotated:
                    keep = _frames_to_keep(guide.stacks[action], guide.kept[action], procedures, height)
                    returning = height > keep
            top = height - 1
            possible = taken.posterior_possible[i]
            count = posterior_possible(graph, procedures, height, counters[top], emitted[row], possible)
            policy_possible(graph, procedures[top], counters[top], height, taken.policy_possible[i])
            if count > 1:
                log_probabilities(
                    net, procedures[top], context[row], counters[top], lasts[top], possible, hidden[i], log_q[i]
                )
            if annotated:
                # Frames return only before the first call: what was called at this time stays.
                returning = returning and height > keep
                choice = _step_towards(graph, guide.stacks[action], procedures, height, emitted[row], returning)
            elif greedy or count == 1:
                choice = most_likely(log_q[i], possible)
            else:
                choice = choose(log_q[i], possible, uniforms[uniform_offsets[walk_number] + i - first])
            steps.row[i] = row
            steps.procedure[i] = procedures[top]
            steps.counter[i] = counters[top]
            steps.last[i] = lasts[top]
            steps.depth[i] = height
            steps.choice[i] = choice
            taken.annotated[i] = annotated
            height = machine_step(graph, procedures, counters, lasts, height, choice)
            i += 1
            if choice < graph.terminate:
                row += 1
                new_time = True
        steps.offsets[walk_number + 1] = i


@njit(**_OPTIONS)
@no_type_check
def act(graph, net, features, procedures, counters, lasts, heights, uniforms, greedy, actions, befores, step_counts):
    """Run the policy in each environment until it acts or ends.

    `actions` gets the action, or ∅ where the program ends or has ended (height 0); `befores` gets what the last step of
    the procedure was before it acted. The PHP steps taken are added to `step_counts`.
    """
    hidden = np.empty(net.bias1.shape[1], dtype=np.float32)
    scores = np.empty(net.bias2.shape[1], dtype=np.float32)
    possible = np.empty(net.bias2.shape[1], dtype=np.bool_)
    for i in range(features.shape[0]):
        actions[i] = graph.terminate
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
            befores[i] = lasts[i, top]
            heights[i] = machine_step(graph, procedures[i], counters[i], lasts[i], heights[i], choice)
            used += 1
            step_counts[i] += 1
            if choice < graph.terminate:
                actions[i] = choice
                break


@njit(**_OPTIONS)
@no_type_check
def choices(graph, net, features, procedure, counter, last, depth, choice):
    """Write the most likely step of each frame to `choice`; a frame is given by arrays of its parts."""
    hidden = np.empty(net.bias1.shape[1], dtype=np.float32)
    scores = np.empty(net.bias2.shape[1], dtype=np.float32)
    possible = np.empty(net.bias2.shape[1], dtype=np.bool_)
    for i in range(features.shape[0]):
        if policy_possible(graph, procedure[i], counter[i], depth[i], possible) > 1:
            log_probabilities(net, procedure[i], features[i], counter[i], last[i], possible, hidden, scores)
        choice[i] = most_likely(scores, possible)


@njit(**_OPTIONS)
@no_type_check
def follow(graph, net, features, emitted, row_offsets, wrong, step_counts, calls):
    """Run the greedy policy along each teacher trace up to its first wrong action.

    `wrong` gets whether there is one; the PHP steps of each trace are added to `step_counts`, the calls of each
    procedure (the root's start counts) to `calls`.
    """
    procedures = np.empty(graph.max_depth + 1, dtype=np.int64)
    counters = np.empty(graph.max_depth + 1, dtype=np.int64)
    lasts = np.empty(graph.max_depth + 1, dtype=np.int64)
    hidden = np.empty(net.bias1.shape[1], dtype=np.float32)
    scores = np.empty(net.bias2.shape[1], dtype=np.float32)
    possible = np.empty(net.bias2.shape[1], dtype=np.bool_)
    for trace in range(row_offsets.shape[0] - 1):
        procedures[0], counters[0], lasts[0], height = graph.root, 0, -1, 1
        calls[graph.root] += 1
        row = row_offsets[trace]
        while height > 0:
            top = height - 1
            count = policy_possible(graph, procedures[top], counters[top], height, possible)
            if count > 1:
                log_probabilities(
                    net, procedures[top], features[row], counters[top], lasts[top], possible, hidden, scores
                )
            choice = most_likely(scores, possible)
            step_counts[trace] += 1
            height = machine_step(graph, procedures, counters, lasts, height, choice)
            if choice > graph.terminate:
                calls[procedures[height - 1]] += 1
            elif choice < graph.terminate:
                if choice != emitted[row]:
                    break
                row += 1
        wrong[trace] = height > 0 or emitted[row] != graph.terminate
