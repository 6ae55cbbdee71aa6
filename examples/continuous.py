"""Continuous actions: do procedures find the phases of scripted controllers, and do they act as well as other policies?

Two data sets, each written as a Minari data set and read back:

* `waypoints`: a point mass visits three way-points in order. The observation does not say which of them comes next.
  The script comes closer to a way-point than it has to before it turns to the next one, or ends.
* `pendulum`: Gymnasium's Pendulum-v1 with a gravity of 3. The script pushes to the left and to the right, with the
  motion, until the pendulum is nearly up, and from then on balances it by a linear law, also if it overshoots. Each
  action lasts three steps of the simulator.

The script of each task has phases. Nobody is told them: they are annotated in the test traces alone, where the
segments that a learner infers are compared with them. Success is measured in roll-outs.

    python examples/continuous.py [--tasks waypoints pendulum] [--seeds 2000 2001 2002 2003 2004] [--out DIRECTORY]

Every result is written to DIRECTORY/records.jsonl (results/continuous) and not run again.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np

import hvil
from hvil.analysis.statistics import student_interval
from hvil.data.segments import segment_annotations
from hvil.gate.files import write_text

NOISE = 0.05
"""Deviation of a scripted action from its law, as a share of the largest action."""
LEARNERS = ("hvil", "feedforward", "lstm", "stackrnn")
TEST, ROLLOUTS = 100, 100


class WayPoints(gymnasium.Env[Any, Any]):
    """A point in the plane and three way-points; the action is its velocity.

    Observation: the vector from the point to each way-point, and its length, as a range sensor measures it. Success
    is to have reached all of them, in order; who acts decides when to end.
    """

    RADIUS, LIMIT, POINTS, GAIN, DT = 0.2, 80, 3, 3.0, 0.1

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (3 * self.POINTS,), np.float32)
        self.action_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        """A new point and new way-points, no two of them close to each other."""
        super().reset(seed=seed)
        while True:
            places = self.np_random.uniform(-1, 1, (1 + self.POINTS, 2))
            distances = np.linalg.norm(places[:, None] - places[None], axis=2) + 9 * np.eye(len(places))
            if distances.min() > 0.6:
                break
        self.place, self.targets, self.reached, self.time = places[0], places[1:], 0, 0
        return self._observation(), {}

    def _observation(self) -> np.ndarray:
        ways = self.targets - self.place
        return np.insert(ways, 2, np.linalg.norm(ways, axis=1), axis=1).astype(np.float32).ravel()

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Move; a way-point counts if those before it were reached."""
        self.place = self.place + self.DT * np.asarray(action, dtype=np.float64)
        if self.reached < self.POINTS and np.linalg.norm(self.targets[self.reached] - self.place) < self.RADIUS:
            self.reached += 1
        self.time += 1
        success = self.reached == self.POINTS
        return self._observation(), float(success), False, self.time >= self.LIMIT, {"success": success}


class WayPointScript:
    """Head for the next way-point, at a speed that is proportional to the distance, until close to it."""

    CLOSE = 0.1
    phases = tuple(f"reach_{number}" for number in range(1, WayPoints.POINTS + 1))

    def __init__(self) -> None:
        self.phase = 0

    def act(self, observation: np.ndarray) -> tuple[int, np.ndarray] | None:
        """The phase, and the action without noise; None at the end."""
        ways = observation.reshape(-1, 3)
        if ways[self.phase, 2] < self.CLOSE:
            self.phase += 1
        if self.phase == len(self.phases):
            return None
        return self.phase, WayPoints.GAIN * ways[self.phase, :2]


class SwingUp(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Gymnasium's pendulum; an action lasts three steps; an episode ends when it has been upright for 5 actions."""

    LIMIT, HOLD, GRAVITY = 60, 5, 3.0

    def __init__(self) -> None:
        super().__init__(gymnasium.make("Pendulum-v1", g=self.GRAVITY).unwrapped)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        """Begin near the lowest point, nearly at rest."""
        self.env.reset(seed=seed)
        angle, speed = self.env.np_random.uniform([np.pi - 0.5, -0.5], [np.pi + 0.5, 0.5])
        self.env.state = np.array([angle, speed])
        self.time = self.up = 0
        return self.env._get_obs(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Three steps of the simulator."""
        for _ in range(3):
            observation, *_ = self.env.step(np.asarray(action, dtype=np.float64))
        cosine, _, speed = observation
        self.up = self.up + 1 if cosine > 0.95 and abs(speed) < 1 else 0
        self.time += 1
        done = self.up >= self.HOLD
        return observation, float(done), done, self.time >= self.LIMIT, {"success": done}


class SwingUpScript:
    """Push with the motion until the pendulum is nearly up, then balance it; once it balances, it goes on so."""

    phases = ("push_left", "push_right", "balance")

    def __init__(self) -> None:
        self.balancing = False

    def act(self, observation: np.ndarray) -> tuple[int, np.ndarray] | None:
        """The phase, and the action without noise."""
        cosine, sine, speed = (float(number) for number in observation)
        self.balancing = self.balancing or cosine > 0.8
        if self.balancing:
            return 2, np.array([-8 * sine - 2 * speed])
        return (1, np.array([0.9])) if speed > 0 else (0, np.array([-0.9]))


class Task(NamedTuple):
    """A scripted task and the settings of the learners for it."""

    environment: Callable[[], Any]
    script: Callable[[], Any]
    largest: float
    """The scale of the noise."""
    demonstrations: int
    names: tuple[tuple[str, ...], tuple[str, ...]]
    """Of the observation's columns, and of the action's."""
    settings: dict[str, dict[str, Any]]
    """Of each learner."""


PROCEDURES: dict[str, Any] = {
    "updates": 200,
    "batch_size": 20,
    "learning_rate": 0.01,
    "hidden": 32,
    "frame_inputs": "last",
    "exact_start": 200,
    "exact_length": 100,
    "entropy_weight": 0.0,
    "entropy_final": -0.5,
    "entropy_decay": 0.0,
    "entropy_decay_interval": 1,
    "average": 0.95,
    "samples": 2,
    "baseline": "leave-one-out",
}


def _baselines(updates: int, learning_rate: float) -> dict[str, dict[str, Any]]:
    """The settings of the other learners."""
    settings = {"updates": updates, "batch_size": 20, "learning_rate": learning_rate}
    return {name: dict(settings) for name in LEARNERS[1:]}


TASKS = {
    "waypoints": Task(
        WayPoints,
        WayPointScript,
        1.0,
        60,
        (tuple(f"{kind}{number}" for number in (1, 2, 3) for kind in ("x", "y", "range")), ("vx", "vy")),
        {"hvil": PROCEDURES, **_baselines(1500, 0.001)},
    ),
    "pendulum": Task(
        SwingUp,
        SwingUpScript,
        1.0,
        60,
        (("cosine", "sine", "speed"), ("torque",)),
        {"hvil": PROCEDURES, **_baselines(1000, 0.003)},
    ),
}
GRAPH = {
    "root": "main",
    "procedures": {
        "main": {"calls": ["first", "second", "third"], "actions": []},
        "first": {"calls": []},
        "second": {"calls": []},
        "third": {"calls": []},
    },
}
"""A root that calls, and three procedures that act."""


def collect(task: Task, count: int, seed: int) -> hvil.Traces:
    """Demonstrations of a script, with its phases as annotations."""
    environment, rng = task.environment(), np.random.default_rng(seed)
    observations, actions, phases = [], [], []
    while len(actions) < count:
        observation, _ = environment.reset(seed=int(rng.integers(2**31)))
        script, saw, did, was = task.script(), [observation], [], []
        terminated = truncated = False
        while not (terminated or truncated) and (chosen := script.act(observation)) is not None:
            phase, action = chosen
            action = action + NOISE * task.largest * rng.standard_normal(action.shape)
            observation, _, terminated, truncated, information = environment.step(action)
            saw.append(observation)
            did.append(action)
            was.append(phase)
        if information["success"]:  # a demonstration shows how it is done
            observations.append(np.array(saw, dtype=np.float32))
            actions.append(np.array(did, dtype=np.float32))
            phases += was
    traces = hvil.Traces.from_episodes(observations, actions, task.names[1], task.names[0])
    annotations = segment_annotations(task.script.phases, np.array(phases), traces.offsets)
    return replace(traces, annotations=annotations)


def data_set(name: str, count: int, seed: int) -> hvil.Traces:
    """Demonstrations as a Minari data set, read back."""
    source = f"minari:hvil/{name}{count}s{seed}-v0"
    hvil.save_traces(collect(TASKS[name], count, seed), source)
    return hvil.load_traces(source)


def success(policy: Any, task: Task, count: int, seed: int) -> float:
    """The share of roll-outs that end well. A policy that ends too early stands still from then on."""
    rng = np.random.default_rng(seed)
    environments = [task.environment() for _ in range(count)]
    seen = np.stack([each.reset(seed=int(rng.integers(2**31)))[0] for each in environments])
    won, over = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
    policy.reset(count)
    while not over.all():
        actions = np.nan_to_num(policy.act(seen))
        for i in np.flatnonzero(~over):
            seen[i], _, _, truncated, information = environments[i].step(actions[i])
            won[i] = information["success"]
            over[i] = won[i] or truncated
    return float(won.mean())


def run_cell(name: str, learner: str, seed: int) -> dict[str, Any]:
    """Train one learner on one draw of the demonstrations; what it achieves on fresh traces and in roll-outs."""
    task = TASKS[name]
    with tempfile.TemporaryDirectory() as directory:
        os.environ["MINARI_DATASETS_PATH"] = directory
        training = data_set(name, task.demonstrations, seed)
        test = data_set(name, TEST, seed + 500_000)
    began = _processor_time()
    run = hvil.fit(
        replace(training, annotations=None),
        GRAPH,
        model=learner,
        seed=seed,
        test=replace(test, annotations=None),
        patience=0,
        validation=0.0,
        workers=1,
        **task.settings[learner],
    )
    seconds = _processor_time() - began
    evaluation = run.evaluate(test)
    record = {
        "task": name,
        "learner": learner,
        "seed": seed,
        "success": success(run.policy, task, ROLLOUTS, seed + 700_000),
        "squared_error": evaluation.squared_error,
        "log_likelihood": evaluation.log_likelihood if evaluation.elbo is None else evaluation.elbo,
        "seconds": seconds,
    }
    if evaluation.boundaries:
        record |= {f"f1_{tolerance}": score.f1 for tolerance, score in evaluation.boundaries.items()}
    return record


def _processor_time() -> float:
    """Seconds of this process and of the workers that it has waited for."""
    return sum(os.times()[:4])


def table(records: list[dict[str, Any]]) -> str:
    """Means over seeds with 95% intervals, in Markdown."""
    columns = ("success", "f1_0", "f1_1", "squared_error", "log_likelihood", "seconds")
    lines = ["| task | learner | " + " | ".join(columns) + " |", "|---" * (2 + len(columns)) + "|"]
    for name, learner in dict.fromkeys((record["task"], record["learner"]) for record in records):
        cells = []
        for column in columns:
            values = [r[column] for r in records if (r["task"], r["learner"]) == (name, learner) and column in r]
            cells.append(_mean(np.array(values, dtype=float)) if values else "–")
        lines.append(f"| {name} | {learner} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _mean(values: np.ndarray) -> str:
    if len(values) == 1:
        return f"{values[0]:.3g}"
    low, high = student_interval(values) or (np.nan, np.nan)
    return f"{values.mean():.3g} [{low:.3g}, {high:.3g}]"


def main() -> None:
    """Run the cells that have no record, one after another, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--out", type=Path, default=Path("results/continuous"))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(2000, 2005)))
    parser.add_argument("--learners", nargs="+", choices=LEARNERS, default=LEARNERS)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "records.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    cells = list(product(args.tasks, args.learners, args.seeds))
    done = {_cell(record) for record in records}
    for cell in cells:
        if cell not in done:
            records.append(run_cell(*cell))
            write_text(path, "".join(json.dumps(record) + "\n" for record in records))
            print(records[-1], flush=True)
    print(table([record for record in records if _cell(record) in cells]))


def _cell(record: dict[str, Any]) -> tuple[str, str, int]:
    return record["task"], record["learner"], record["seed"]


if __name__ == "__main__":
    main()
