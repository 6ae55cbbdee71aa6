"""Random streams: the numbers drawn are part of every published result."""

import numpy as np
import pytest

from hvil.data.streams import Stream


@pytest.mark.parametrize(
    ("stream", "value"),
    [
        ("TEST_TRACES", 1),
        ("HELD_OUT", 2),
        ("ANNOTATED", 3),
        ("POOL_SPLIT", 3),
        ("VALIDATION", 4),
        ("STREAMED_TRACES", 5),
        ("STREAMED_GROUPS", 6),
    ],
)
def test_a_stream_draws_what_its_number_always_drew(stream: str, value: int) -> None:
    drawn = Stream[stream].generator(7, 2).random(3)
    assert np.array_equal(drawn, np.random.default_rng([7, value, 2]).random(3))
