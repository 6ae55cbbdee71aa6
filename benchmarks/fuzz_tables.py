"""Tables for `fuzz`: columns with names that mean something and any contents, as CSV, JSON lines and Feather."""

import io
import json

import pyarrow as pa
from hypothesis import strategies as st
from pyarrow import feather

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.sampled_from([2**31, 2**63 - 1, 10**9, 65536, -1, 0])
    | st.floats()
    | st.text(max_size=6)
)
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner))
COLUMN_TYPES = [
    st.lists(st.integers(-3, 5) | st.none(), min_size=6, max_size=6),
    st.lists(st.floats() | st.none(), min_size=6, max_size=6),
    st.lists(st.text(max_size=3) | st.none(), min_size=6, max_size=6),
    st.lists(st.booleans() | st.none(), min_size=6, max_size=6),
    st.lists(st.lists(st.text(max_size=2), max_size=3) | st.none(), min_size=6, max_size=6),
    st.lists(st.lists(st.integers(0, 9), max_size=2) | st.none(), min_size=6, max_size=6),
]
CELLS = (
    st.sampled_from(
        ["", "NA", "null", "1", "2,5", "-0.5", "1e400", "true", "no", "2026-03-02 07:30:00", "08:15", "x;y"]
    )
    | st.text(max_size=6)
    | st.integers(-3, 70000).map(str)
)
NAMES = [
    "trace",
    "session_id",
    "step",
    "t",
    "timestamp",
    "action",
    "event",
    "x",
    "observation.y",
    "stack",
    "metadata.m",
]


@st.composite
def csv_of_anything(draw: st.DrawFn) -> bytes:
    """Lines of fields under names that mean something, with any separator, in any encoding."""
    separator = draw(st.sampled_from([",", ";", "\t", "|"]))
    names = draw(st.lists(st.sampled_from(NAMES) | st.text(max_size=4), min_size=1, max_size=7))
    rows = draw(st.lists(st.lists(CELLS, min_size=len(names), max_size=len(names)), max_size=12))
    lines = [separator.join(names), *(separator.join(row) for row in rows)]
    encoding = draw(st.sampled_from(["utf-8", "utf-16", "cp1252", "utf-8-sig"]))
    return draw(st.sampled_from(["\n", "\r\n"])).join(lines).encode(encoding, errors="replace")


@st.composite
def json_lines_of_anything(draw: st.DrawFn) -> bytes:
    """Objects, one a line, under names that mean something, with any contents."""
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1))
    values = {
        name: draw(st.sampled_from([SCALARS, JSON, st.sampled_from(["a", "b", None]), st.integers(0, 3)]))
        for name in names
    }
    rows = [{name: draw(value) for name, value in values.items()} for _ in range(draw(st.integers(0, 8)))]
    return "\n".join(json.dumps(row) for row in rows).encode()


@st.composite
def feather_of_anything(draw: st.DrawFn) -> bytes:
    """A valid Feather file whose columns have names that mean something and any contents."""
    chosen = draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=2))
    table = pa.table({name: pa.array(draw(st.one_of(COLUMN_TYPES))) for name in chosen})
    buffer = io.BytesIO()
    feather.write_feather(table, buffer, compression="uncompressed")
    return buffer.getvalue()


def small_tables() -> tuple[list[bytes], list[bytes], list[bytes]]:
    """A small valid log as JSON lines, as CSV and as Feather."""
    rows = [
        {
            "session": f"s{s}",
            "time": f"2026-03-02T07:30:{10 * s + i}",
            "x": None if i == 1 else i / 2,
            "kind": "ab"[s],
        }
        | {"at": {"place": [i, s]}, "action": "" if i == 3 else "go"}
        for s in range(2)
        for i in range(4)
    ]
    lines = ["\n".join(map(json.dumps, rows)).encode()]
    flat = [{name: value for name, value in row.items() if name != "at"} for row in rows]
    logs = ["\n".join([";".join(flat[0]), *(";".join(map(str, row.values())) for row in flat)]).encode()]
    buffer = io.BytesIO()
    feather.write_feather(pa.Table.from_pylist(flat), buffer, compression="uncompressed")
    feathers = [buffer.getvalue()]
    return lines, logs, feathers
