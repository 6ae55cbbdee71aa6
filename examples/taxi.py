"""From an environment to a policy: Gymnasium's Taxi, a scripted driver, two data sets, and what each model learns.

    python examples/taxi.py [--traces 200] [--seeds 5] [--updates N] [--out taxi]

The script collects traces of a scripted driver on `Taxi`, writes them as Parquet and as a Minari data set, and fits
both with `hvil fit` and no settings. Then it drives: it measures how often hvil's program, and the LSTM and
feed-forward policies that were trained on the same traces, succeed in the environment. It does so for several seeds of
the split and the weights.
"""

import argparse
import json
import os
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import hvil
from hvil.analysis.statistics import student_interval

ACTIONS = ("south", "north", "east", "west", "pickup", "dropoff")
COLUMNS = ("row", "column", "passenger", "destination")
STATIONS = ((0, 0), (0, 4), (4, 0), (4, 3))
IN_TAXI = 4
ENVIRONMENT = next(name for name in ("Taxi-v4", "Taxi-v3") if name in gymnasium.registry)
"""Both are the same task; newer releases of Gymnasium have only the newer name."""


def main() -> None:
    """Collect, fit, drive."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traces", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--updates", type=int, help="instead of the default of hvil fit")
    parser.add_argument("--out", type=Path, default=Path("taxi"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    os.environ["MINARI_DATASETS_PATH"] = str((args.out / "minari").resolve())

    traces = collect(args.traces, seed=0)
    parquet = args.out / "taxi.parquet"
    hvil.save_traces(traces, parquet)
    if not (args.out / "minari" / "taxi" / "scripted-v0").exists():
        hvil.save_traces(traces, "minari:taxi/scripted-v0")

    extra = [] if args.updates is None else ["--updates", str(args.updates)]
    results: dict[str, list[float]] = {}
    for seed in range(args.seeds):
        fit(str(parquet), args.out / f"run-{seed}", "--seed", str(seed), *extra)
        for name, path in {"hvil": "", "lstm": "lstm", "feedforward": "feedforward"}.items():
            policy = hvil.load(args.out / f"run-{seed}" / path).policy
            results.setdefault(name, []).append(float(np.mean([drive(policy, 10_000 + i) for i in range(200)])))
        print(f"seed {seed}: " + ", ".join(f"{name} {shares[-1]:.1%}" for name, shares in results.items()), flush=True)
    fit("minari:taxi/scripted-v0", args.out / "run-minari", *extra)
    policy = hvil.load(args.out / "run-minari").policy
    print(f"from Minari: {np.mean([drive(policy, 10_000 + i) for i in range(200)]):.1%}")

    summary: dict[str, Any] = {}
    for name, shares in results.items():
        low, high = student_interval(np.array(shares)) or (float("nan"), float("nan"))
        summary[name] = {"success": float(np.mean(shares)), "interval": [low, high], "seeds": shares}
        print(f"{name:12} success {np.mean(shares):.1%}  [{low:.1%}, {high:.1%}] over {len(shares)} seeds")
    (args.out / "results.json").write_text(json.dumps(summary, indent=2) + "\n")


def fit(source: str, out: Path, *flags: str) -> None:
    """`hvil fit`, unless an earlier call did it already."""
    if not (out / "baselines.json").exists():
        resume = ["--resume"] if out.exists() else []
        command = [sys.executable, "-m", "hvil", "fit", source, "--out", str(out), *flags, *resume]
        subprocess.run(command, check=True)


def observe(env: Any) -> np.ndarray:
    """The state as four numbers. The environment's own observation is one number of 500 that encodes them."""
    return np.array(list(env.unwrapped.decode(env.unwrapped.s)), dtype=np.int64)


def collect(count: int, seed: int) -> hvil.Traces:
    """Traces of the scripted driver."""
    env = gymnasium.make(ENVIRONMENT)
    observations, actions = [], []
    while len(actions) < count:
        env.reset(seed=seed + len(actions))
        seen, taken, done = [observe(env)], [], False
        while not done:
            taken.append(driver(env, seen[-1]))
            done = env.step(taken[-1])[2]
            seen.append(observe(env))
        observations.append(np.stack(seen))
        actions.append(np.array(taken))
    return hvil.Traces.from_episodes(observations, actions, ACTIONS, COLUMNS)


def driver(env: Any, state: np.ndarray) -> int:
    """The action of the teacher: drive a shortest way to the passenger, pick up, drive to the destination, drop off."""
    row, column, passenger, destination = (int(number) for number in state)
    goal = STATIONS[destination if passenger == IN_TAXI else passenger]
    if (row, column) == goal:
        return ACTIONS.index("dropoff" if passenger == IN_TAXI else "pickup")
    return route(env, (row, column), goal)


def route(env: Any, start: tuple[int, int], goal: tuple[int, int]) -> int:
    """The first move of a shortest way, by a breadth-first search in the environment's own table of moves."""
    table, encode = env.unwrapped.P, env.unwrapped.encode
    queue: deque[tuple[tuple[int, int], int]] = deque([(start, -1)])
    visited = {start}
    while queue:
        cell, first = queue.popleft()
        if cell == goal:
            return first
        for move in range(4):
            row, column, *_ = env.unwrapped.decode(table[encode(*cell, IN_TAXI, 0)][move][0][1])
            if (row, column) not in visited:
                visited.add((row, column))
                queue.append(((row, column), move if first < 0 else first))
    raise ValueError(f"no way from {start} to {goal}")


def drive(policy: Any, seed: int) -> bool:
    """Whether the policy brings the passenger to the destination within the environment's 200 steps."""
    env = gymnasium.make(ENVIRONMENT)
    env.reset(seed=seed)
    policy.reset()
    done = cut = False
    while not (done or cut):
        action = policy.act(observe(env))
        if action == len(ACTIONS):
            return False  # the program has ended, the trip has not
        _, _, done, cut, _ = env.step(action)
    return done


if __name__ == "__main__":
    main()
