"""Bubble sort learned one level of procedures after another, as PHP (2018) did, and all levels together, as HVIL does.

    python examples/level_by_level.py [--out results/level_by_level] [--runs 5] [--first-run 2000]

Level by level: at first there are only a root and the procedures of the lowest level. What they were found to do is
then settled. In the traces each of their calls becomes one action, and the next level is learned from these shorter
traces; and so on up to the root. At the end the networks of all levels are put together as one policy, and tested like
any other. Each level has the settings of `hvil fit bubblesort`, exact start and restarts included; only the limits of
its exact sums are left out, because a root that stands above the lowest level alone takes many steps.

Records are written to OUT/records.jsonl, and no run that has one is run again. The errors of HVIL on the same training
and test sets are read from results/bubblesort.
"""

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

import hvil
from hvil.analysis.evaluation import evaluate
from hvil.analysis.statistics import mean_estimate, shown
from hvil.data.settings import DataSettings
from hvil.data.sources import Data, load_data
from hvil.experiments.outcome.results import read_records
from hvil.gate.files import write_text
from hvil.learners.networks.bank import MlpBank
from hvil.learners.networks.policy import PolicyNetwork
from hvil.training.plan import make_plan, task_defaults
from hvil.training.restarts import train_plan
from hvil.training.run import Run

LEVELS = (("compswap",), ("bstep", "lshift"), ("bubble", "reset"))
"""The procedures of the task's call graph, from the lowest level up; above them is the root, bubble_sort."""
ROOT = "bubble_sort"
DEMOS, TEST = 30, 500
JOINT = Path("results/bubblesort/records.jsonl")


def main() -> None:
    """Train what has no record, then print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/level_by_level"))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--first-run", type=int, default=2000)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "records.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    runs = range(args.first_run, args.first_run + args.runs)
    for run in runs:
        if run not in {record["run"] for record in records}:
            records.append(record_of(run))
            write_text(path, "".join(json.dumps(record) + "\n" for record in records))
            print(records[-1], flush=True)
    print(table([record for record in records if record["run"] in runs]))


def record_of(number: int) -> dict[str, Any]:
    """Train all levels of a run, put them together, and test."""
    started = time.perf_counter()
    data = load_data("bubblesort", DataSettings(source="bubblesort", demos=DEMOS, test_traces=TEST), number)
    assert data.task is not None
    assert data.test is not None
    settings = task_defaults(data.task, "hvil") | {"seed": number}
    levels: list[Run] = []
    traces, below = data.training, ()
    for names in LEVELS:
        levels.append(trained(data, traces, graph_of(data, names, below), settings))
        traces, below = abstracted(levels[-1], traces), names
    policy = together(data, settings, levels)
    measured = evaluate(policy.learner.policy(), data.test, data.training, data.task)
    return {
        "run": number,
        **measured.to_mapping(),
        "training_error": float(policy.learner.policy().wrong(data.training).mean()),
        "level_errors": [float(level.policy.wrong(level.data.training).mean()) for level in levels],
        "seconds": round(time.perf_counter() - started, 1),
        "version": hvil.__version__,
    }


def graph_of(data: Data, names: Sequence[str], below: Sequence[str]) -> dict[str, Any]:
    """A root above some procedures of the task's call graph, whose calls of the level below are actions."""
    assert data.task is not None
    own = data.task.default_call_graph
    assert isinstance(own, Mapping)
    actions = list(data.task.action_names)
    procedures: dict[str, Any] = {ROOT: {"calls": list(names), "actions": actions}}
    for name in names:
        called = [callee for callee in own["procedures"][name]["calls"] if callee in below]
        procedures[name] = {"calls": [], "actions": actions + called}
    return {"root": ROOT, "procedures": procedures}


def trained(data: Data, traces: hvil.Traces, graph: dict[str, Any], settings: Mapping[str, Any]) -> Run:
    """The procedures of one level, and a root that calls them."""
    level = Data(training=traces, test=None, task=data.task)
    unlimited = {**settings, "largest_counter": 0, "longest_span": 0}
    plan = make_plan(level, unlimited, graph, data_settings=DataSettings(), defaults="fields")
    run = train_plan(plan, level)
    run.data = level
    return run


def abstracted(run: Run, traces: hvil.Traces) -> hvil.Traces:
    """The steps of the root alone: each call of a procedure is one action, taken where the call was made."""
    graph = run.config.graph
    steps = run.learner.infer(traces).steps  # type: ignore[attr-defined]
    words = {number: word for word, number in choices(graph, graph.root).items()}
    names = tuple(word for number, word in words.items() if number != graph.terminate)
    observations, actions = [], []
    for first, end in pairwise(steps.offsets):
        of_root = steps.depth[first:end] == 1
        taken = [words[choice] for choice in steps.choice[first:end][of_root]]
        observations.append(traces.observations[steps.row[first:end][of_root]])
        actions.append(np.array([names.index(word) for word in taken[:-1]]))  # the last one is the return
    return hvil.Traces.from_episodes(observations, actions, names, observation_names=traces.observation_names)


def together(data: Data, settings: Mapping[str, Any], levels: Sequence[Run]) -> Run:
    """One policy with the networks of all levels."""
    plan = make_plan(data, {**settings, "updates": 0, "restarts": 1, "exact_start": 0}, defaults="fields")
    whole = train_plan(plan, data)
    network = whole.learner.policy_network  # type: ignore[attr-defined]
    for names, level in zip((*LEVELS[: len(levels)], (ROOT,)), (*levels, levels[-1]), strict=True):
        for name in names:  # the root is that of the highest level
            copy_procedure(name, level.learner.policy_network, network)  # type: ignore[attr-defined]
    return whole


@torch.no_grad()
def copy_procedure(name: str, source: PolicyNetwork, target: PolicyNetwork) -> None:
    """Copy a procedure's network: what is an action there may be a call here, as an input and output."""
    one, other = source.graph, target.graph
    h, g = one.procedure_index(name), other.procedure_index(name)
    steps = choices(one, h)
    pairs = [(steps[word], place) for word, place in choices(other, g).items() if word in steps]
    first, second = source.bank, target.bank
    assert isinstance(first, MlpBank)
    assert isinstance(second, MlpBank)
    plain = first.weight1.shape[1] - one.step_count  # features and counter, before the last step
    second.weight1[g], second.bias1[g] = 0.0, first.bias1[h]
    second.weight1[g, :plain] = first.weight1[h, :plain]
    second.weight2[g], second.bias2[g] = 0.0, -1e3  # a step that the level did not have is never taken
    for old, new in pairs:
        second.weight1[g, plain + new] = first.weight1[h, plain + old]
        second.weight2[g, :, new] = first.weight2[h, :, old]
        second.bias2[g, new] = first.bias2[h, old]


def choices(graph: hvil.CallGraph, procedure: int) -> dict[str, int]:
    """The number of each choice that a procedure has, by a word that is the same for a call and an action."""
    actions = {name: action for action, name in enumerate(graph.action_names) if graph.can_act[procedure, action]}
    calls = {graph.procedures[callee]: graph.terminate + 1 + k for k, callee in enumerate(graph.calls[procedure])}
    return actions | {"return": graph.terminate} | calls


def table(records: Sequence[Mapping[str, Any]]) -> str:
    """Errors of both ways, and their difference run by run."""
    errors = {record["run"]: record["error"] for record in records}
    joint = {
        position.run: record["error"]
        for position, record in read_records(JOINT).items()
        if (position.model, position.size) == ("HVIL", DEMOS) and position.run in errors
    }
    lines = ["| bubble sort, 30 demonstrations | error | runs |", "|---|---|---|"]
    lines.append(f"| level by level | {shown(mean_estimate(np.array(list(errors.values()))))} | {len(errors)} |")
    if len(joint) == len(errors):
        lines.append(f"| all levels together | {shown(mean_estimate(np.array(list(joint.values()))))} | {len(joint)} |")
        difference = mean_estimate(np.array([joint[run] - errors[run] for run in errors]))
        lines.append(f"| together minus level by level | {shown(difference, sign='+', unit=' points')} | |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
