"""Four logs of scripted policies that need no hierarchy: what `hvil.fit` and `run.explain` make of them.

    python examples/flat_logs.py [--seeds 3] [--updates N]

The policies look at the observation and act: one walks along Gymnasium's cliff, one heats a room, one lets cars pass,
one sorts parcels. The script learns each from 80 traces with the defaults for one's own data. It prints the program, on
how many fresh traces it does what the script does, and what `explain` says about its hierarchy.
"""

import argparse
from collections.abc import Callable

import gymnasium
import numpy as np

import hvil

TRACES = 80
FRESH = 100
GOAL = 47
"""The cell of the cliff world in which an episode ends: the last of four rows of twelve."""


def main() -> None:
    """Learn and explain each log, once a seed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--updates", type=int, help="instead of the default of hvil.fit")
    args = parser.parse_args()
    settings = {} if args.updates is None else {"updates": args.updates}
    for name, log in LOGS.items():
        for seed in range(args.seeds):
            run = hvil.fit(log(TRACES, seed), seed=seed, **settings)
            explanation = run.explain()
            fresh = log(FRESH, 10_000 + seed)
            error = run.program.wrong(fresh).mean()
            print(f"# {name}, seed {seed}: {explanation.lines} lines, right on {1 - error:.1%} of {FRESH} fresh traces")
            print(f"# {explanation.no_hierarchy or 'calls procedures'}")
            print(explanation.source, flush=True)


def cliff(count: int, seed: int) -> hvil.Traces:
    """Gymnasium's cliff world from random cells: up from the start, right to the last column, down to the goal."""
    environment = gymnasium.make("CliffWalking-v1").unwrapped
    rng = np.random.default_rng(seed)
    observations, actions = [], []
    for _ in range(count):
        environment.reset(seed=0)
        environment.s = cell = int(rng.integers(37))  # type: ignore[attr-defined]
        cells, taken = [cell], []
        while cell != GOAL:
            taken.append(0 if cell == 36 else 2 if cell % 12 == 11 else 1)
            cell, *_ = environment.step(taken[-1])
            cells.append(int(cell))
        observations.append(np.array(cells, dtype=np.int64)[:, None])
        actions.append(np.array(taken, dtype=np.int32))
    return hvil.Traces.from_episodes(observations, actions, ("up", "right", "down", "left"), ("cell",))


def thermostat(count: int, seed: int) -> hvil.Traces:
    """Heat below 19 degrees, cool above 23, else wait; somebody switches it off after a while."""

    def act(state: np.ndarray) -> int:
        return 0 if state[0] < 19 else 1 if state[0] > 23 else 2

    def world(state: np.ndarray, action: int, rng: np.random.Generator) -> np.ndarray:
        drift = rng.normal(0, 2)
        return np.array([state[0] + (1.5, -1.5, 0.0)[action] + drift, float(rng.random() < 0.1)])

    start = lambda rng: np.array([rng.uniform(12, 30), 0.0])  # noqa: E731
    return _log(count, seed, ("heat", "cool", "wait"), ("temperature", "switched_off"), start, act, world)


def crossing(count: int, seed: int) -> hvil.Traces:
    """Let those pass who have waited in the longer queue; end when nobody waits."""

    def act(state: np.ndarray) -> int:
        return 0 if state[0] >= state[1] else 1

    def world(state: np.ndarray, action: int, rng: np.random.Generator) -> np.ndarray:
        queues = state[:2].copy()
        queues[action] -= 1
        return np.array([*queues, float(queues.sum() == 0)])

    def start(rng: np.random.Generator) -> np.ndarray:
        north, east = rng.integers(1, 8, size=2)
        return np.array([north, east, 0.0])

    return _log(count, seed, ("north_goes", "east_goes"), ("north", "east", "nobody_waits"), start, act, world)


def parcels(count: int, seed: int) -> hvil.Traces:
    """Heavy parcels go left, fragile ones to the table, all others right; the belt stops when it is empty."""

    def act(state: np.ndarray) -> int:
        return 0 if state[0] > 20 else 1 if state[1] else 2

    def world(state: np.ndarray, action: int, rng: np.random.Generator) -> np.ndarray:
        return np.array([rng.integers(1, 41), rng.random() < 0.3, rng.random() < 0.15], dtype=float)

    start = lambda rng: np.array([rng.integers(1, 41), float(rng.random() < 0.3), 0.0])  # noqa: E731
    return _log(count, seed, ("left", "table", "right"), ("weight", "fragile", "empty"), start, act, world)


State = np.ndarray


def _log(
    count: int,
    seed: int,
    action_names: tuple[str, ...],
    observation_names: tuple[str, ...],
    start: Callable[[np.random.Generator], State],
    act: Callable[[State], int],
    world: Callable[[State, int, np.random.Generator], State],
) -> hvil.Traces:
    """Traces of a policy in a world whose last number says when to end."""
    rng = np.random.default_rng(seed)
    observations, actions = [], []
    for _ in range(count):
        states, taken = [start(rng)], []
        while not states[-1][-1]:
            taken.append(act(states[-1]))
            states.append(world(states[-1], taken[-1], rng))
        observations.append(np.array(states, dtype=np.float32))
        actions.append(np.array(taken, dtype=np.int32))
    return hvil.Traces.from_episodes(observations, actions, action_names, observation_names)


LOGS: dict[str, Callable[[int, int], hvil.Traces]] = {
    "cliff": cliff,
    "thermostat": thermostat,
    "crossing": crossing,
    "parcels": parcels,
}

if __name__ == "__main__":
    main()
