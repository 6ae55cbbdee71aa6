"""Pictures of episodes: the environment draws them, and each different one is kept once, as a small PNG."""

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
"""Largest width or height of a picture in pixels: each is tried until the pictures fit."""
COLOURS = 64
"""Colours of a picture that has more than a PNG's palette of 256."""
SAMPLE = 12
"""Pictures that are tried to set the width."""

Picture = UInt8[np.ndarray, "height width 3"]


class Album(NamedTuple):
    """The pictures of some episodes."""

    uris: list[str]
    """Each different picture, as a data URI."""
    at: list[list[int]]
    """For each episode, the number of the picture at each time; empty if it has none."""


def album(episodes: Sequence[Episode], task: Task | None, traces: Traces, most_bytes: int) -> Album:
    """Draw every episode again, action for action.

    The pictures become smaller until they should fit into so many bytes; if they do not, the last episodes have none.
    Nothing is drawn without a task, or if its environment does not draw.
    """
    if task is None or not _draws(task):
        return Album(uris=[], at=[[] for _ in episodes])
    result = Album(uris=[], at=[])
    with closing(task.environment(render_mode="rgb_array")) as environment:
        count = sum(len(episode.actions) + 1 for episode in episodes)
        sample = list(islice(_drawn(environment, task, traces, episodes[0]), SAMPLE))
        width = _affordable_width(sample, count, most_bytes)
        numbers: dict[bytes, int] = {}
        spent = 0
        for episode in episodes:
            at: list[int] = []
            for picture in _drawn(environment, task, traces, episode) if spent < most_bytes else ():
                key = hashlib.blake2b(picture.tobytes() + str(picture.shape).encode(), digest_size=16).digest()
                if key not in numbers:
                    numbers[key] = len(result.uris)
                    result.uris.append(_uri(picture, width))
                    spent += len(result.uris[-1])
                at.append(numbers[key])
                if spent > most_bytes:
                    break
            complete = len(at) == len(episode.actions) + 1
            result.at.append(at if complete else [])
    return result


def _draws(task: Task) -> bool:
    """Whether the task's environment says, as Gymnasium's environments do, that it draws pictures."""
    with closing(task.environment()) as environment:
        return "rgb_array" in (getattr(environment, "metadata", None) or {}).get("render_modes", ())


def _drawn(environment: Any, task: Task, traces: Traces, episode: Episode) -> Iterator[Picture]:
    """The picture at each time."""
    environment.reset(options=task.reset_options(traces, episode.trace))
    yield np.ascontiguousarray(environment.render(), dtype=np.uint8)
    for action in episode.actions:
        environment.step(action)
        yield np.ascontiguousarray(environment.render(), dtype=np.uint8)


def _affordable_width(sample: Sequence[Picture], count: int, most_bytes: int) -> int:
    """The largest width at which so many pictures, all different, should fit."""
    for width in WIDTHS:
        if count * sum(len(_uri(picture, width)) for picture in sample) <= most_bytes * len(sample):
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
