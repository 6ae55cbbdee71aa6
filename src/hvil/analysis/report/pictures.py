"""Pictures of episodes: drawn by the environment, each different one kept once, as small PNGs within a budget."""

import base64
import hashlib
import io
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from hvil.analysis.report.episodes import Episode
from hvil.data.tasks import Task
from hvil.data.traces import Traces

WIDTHS = (560, 400, 280, 200, 140)
"""Largest width or height of a picture in pixels, tried one after another until the budget holds."""
COLOURS = 64
SAMPLE = 12
"""Pictures that are tried to choose the width."""

Picture = UInt8[np.ndarray, "height width 3"]


class Album(NamedTuple):
    """The pictures of some episodes."""

    uris: list[str]
    """Each different picture, as a data URI."""
    at: list[list[int]]
    """For each episode, the picture's number at each time; empty if it has none."""


def album(episodes: Sequence[Episode], task: Task | None, traces: Traces, budget: int) -> Album:
    """Draw every episode again, action for action; if even small pictures are too many, the last ones go without."""
    result = Album([], [])
    if task is None:
        return Album([], [[] for _ in episodes])
    with closing(task.environment(render_mode="rgb_array")) as environment:
        count = sum(len(episode.actions) + 1 for episode in episodes)
        width = _affordable_width(list(islice(_drawn(environment, task, traces, episodes[0]), SAMPLE)), count, budget)
        number: dict[bytes, int] = {}
        spent = 0
        for episode in episodes:
            seen: list[int] = []
            for picture in _drawn(environment, task, traces, episode) if spent < budget else ():
                key = hashlib.blake2b(picture.tobytes() + str(picture.shape).encode(), digest_size=16).digest()
                if key not in number:
                    number[key] = len(result.uris)
                    result.uris.append(_uri(picture, width))
                    spent += len(result.uris[-1])
                seen.append(number[key])
                if spent > budget:
                    break
            complete = len(seen) == len(episode.actions) + 1
            result.at.append(seen if complete else [])
    return result


def _drawn(environment: Any, task: Task, traces: Traces, episode: Episode) -> Iterator[Picture]:
    """The picture at each time."""
    environment.reset(options=task.reset_options(traces, episode.trace))
    yield np.ascontiguousarray(environment.render(), dtype=np.uint8)
    for action in episode.actions:
        environment.step(action)
        yield np.ascontiguousarray(environment.render(), dtype=np.uint8)


def _affordable_width(sample: Sequence[Picture], count: int, budget: int) -> int:
    """The largest width at which so many pictures, all different, should fit."""
    for width in WIDTHS:
        if count * sum(len(_uri(picture, width)) for picture in sample) <= budget * len(sample):
            return width
    return WIDTHS[-1]


def _uri(picture: Picture, width: int) -> str:
    """A PNG with few colours: the drawings are flat, so it stays small and looks the same."""
    image = Image.fromarray(picture)
    if max(image.size) > width:
        scale = width / max(image.size)
        size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
        image = image.resize(size, Image.Resampling.LANCZOS)
    stream = io.BytesIO()
    # With few colours the median cut is exact; with many it gives away those of small things, such as a robot, and the
    # octree keeps them.
    exact = image.getcolors(256) is not None
    method = Image.Quantize.MEDIANCUT if exact else Image.Quantize.FASTOCTREE
    few = image.quantize(256 if exact else COLOURS, method=method, dither=Image.Dither.NONE)
    few.save(stream, "PNG", compress_level=9)
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode("ascii")
