"""Random Karel programs and worlds for the tests."""

import random

import numpy as np

from hvil.domains.karel.generator import draw_grids
from hvil.domains.karel.syntax import (
    ACTIONS,
    PREDICATES,
    Action,
    Block,
    Condition,
    If,
    Program,
    Repeat,
    Statement,
    While,
)
from hvil.domains.karel.world import World


def random_program(rng: random.Random, max_depth: int = 3) -> Program:
    return Program(_block(rng, max_depth))


def _block(rng: random.Random, depth: int) -> Block:
    return tuple(_statement(rng, depth) for _ in range(rng.randint(1, 3)))


def _condition(rng: random.Random) -> Condition:
    return Condition(rng.choice(PREDICATES), rng.random() < 0.3)


def _statement(rng: random.Random, depth: int) -> Statement:
    kind = rng.choice(["action", "action", "if", "ifelse", "while", "repeat", "guarded"]) if depth else "action"
    if kind == "if":
        return If(_condition(rng), _block(rng, depth - 1))
    if kind == "ifelse":
        return If(_condition(rng), _block(rng, depth - 1), _block(rng, depth - 1))
    if kind == "while":
        return While(_condition(rng), _block(rng, depth - 1))
    if kind == "repeat":
        return Repeat(rng.randint(0, 6), _block(rng, depth - 1))
    if kind == "guarded":  # random programs crash soon; this one keeps some alive
        return rng.choice(
            [
                If(Condition("frontIsClear"), (Action("move"),), (Action("turnLeft"),)),
                While(Condition("frontIsClear"), (Action("move"),)),
                While(Condition("markersPresent"), (Action("pickMarker"),)),
                If(Condition("noMarkersPresent"), (Action("putMarker"),)),
            ]
        )
    return Action(rng.choice(ACTIONS))


def random_worlds(seed: int, count: int) -> list[World]:
    grids = draw_grids(np.random.default_rng(seed), count)
    return [grids.world(i) for i in range(len(grids.sizes))]
