"""Ways to spoil inputs for `benchmarks.abuse`: edits of bytes and of JSON, links and pipes, files from nothing."""

import copy
import io
import json
import os
import random
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

ODD = (
    *(None, True, -1, 0, 1, 2**31, 2**63, 2**70, 10**400, -(10**400), 0.5, 1e300, 65536, 10**9, "", "x", [], {}),
    *(
        "NaN",
        "Infinity",
        "\ud800",
        "\x00",
        "\x1b[2J",
        "[/]",
        "../../others/file",
        "/dev/zero",
        "/etc/passwd",
        "a" * 5000,
    ),
    *([[]], {"a": {}}, ["x", "x"], [1, 2, 3], "karel:/dev/zero", "mnist-parity:0.7,full", "minari:a/b-v0", "$x$"),
)
"""Values that replace others in JSON."""

# ------------------------------------------------------------------------------------------------------------- changes


def spoil_bytes(rng: random.Random, data: bytes) -> bytes:
    """A file with a few edits."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 5)):
        at = rng.randrange(max(len(changed), 1))
        what = rng.randrange(6)
        if what == 0 and changed:
            changed[at] ^= 1 << rng.randrange(8)
        elif what == 1:
            changed[at : at + rng.randint(1, 8)] = rng.randbytes(rng.randint(0, 8))
        elif what == 2:
            del changed[at : at + rng.randint(1, 64)]
        elif what == 3:
            changed[at:at] = changed[at : at + rng.randint(1, 64)] * rng.choice((1, 1, 50))
        elif what == 4 and rng.random() < 0.3:
            del changed[at:]
        elif changed:
            changed[at : at + 8] = rng.choice([b"\xff" * 8, bytes(8), b"\x7f" * 8, b"99999999", b'"\\ud800"'])
    return bytes(changed)


def spoil_value(rng: random.Random, value: Any) -> Any:
    """A JSON value with one part replaced, removed, doubled or added."""
    if isinstance(value, dict | list) and value and rng.random() < 0.85:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = rng.choice(keys)
        what = rng.random()
        if what < 0.1:
            del value[key]
        elif what < 0.2 and isinstance(value, dict):
            value[str(rng.choice(ODD))] = value[key]
        else:
            value[key] = spoil_value(rng, value[key])
        return value
    return copy.deepcopy(rng.choice(ODD))  # a list of them may be changed further


def spoil_json(rng: random.Random, text: str) -> bytes:
    """A JSON document with odd values, or no longer a JSON document."""
    if rng.random() < 0.25:
        return spoil_bytes(rng, text.encode())
    value = json.loads(text)
    for _ in range(rng.randint(1, 3)):
        value = spoil_value(rng, value)
    spoiled = json.dumps(value, ensure_ascii=True)
    if rng.random() < 0.05:
        spoiled = spoiled.replace("{", '{"a": 1, "a": 2, ', 1)
    return spoiled.encode()


def spoil_file(rng: random.Random, path: Path, others: Path) -> None:
    """Replace a file by something else, such as a link to a file of others, or change its contents."""
    what = rng.random()
    if what < 0.06:
        path.unlink()
        rng.choice(
            [
                lambda: path.symlink_to(others / "file"),
                lambda: path.symlink_to("/dev/zero"),
                lambda: path.symlink_to("/etc/passwd"),
                lambda: path.symlink_to(path.name),
                lambda: os.mkfifo(path),
                path.mkdir,
                lambda: None,
                lambda: path.write_bytes(b""),
            ]
        )()
    elif path.suffix in (".json", ".jsonl"):
        lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
        which = rng.randrange(max(len(lines), 1))
        parts = [line.encode() for line in lines]
        parts[which : which + 1] = [spoil_json(rng, lines[which])] if lines else []
        path.write_bytes(b"\n".join(parts))
    else:
        path.write_bytes(spoil_bytes(rng, path.read_bytes()))


# --------------------------------------------------------------------------------------------------- files from nothing

DTYPES = (
    "<f4",
    "<f8",
    "<i4",
    "<i8",
    "|u1",
    "|b1",
    "<U3",
    "<c8",
    "<M8[s]",
    "|S2",
    "<f2",
    ">i4",
    "|V3",
    "|O",
    "<U100000",
)
MEMBERS = (
    *("observations", "actions", "offsets", "action_names", "observation_names", "attributes"),
    *("annotation_stacks", "annotation_kept", "annotation_procedures", "metadata.x", "metadata.cells", "other"),
)


def spoil_arrays(rng: random.Random, data: bytes) -> bytes:
    """An archive whose arrays are whole, but some of them lost, of another type or shape, or with odd values."""
    with np.load(io.BytesIO(data)) as archive:
        arrays = dict(archive)
    for name in rng.sample(sorted(arrays), rng.randint(1, 3)):
        arrays[rng.choice([name, name, name, rng.choice(MEMBERS)])] = spoil_array(rng, arrays.pop(name))
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def spoil_array(rng: random.Random, array: np.ndarray) -> np.ndarray:
    """An array with one change."""
    what = rng.randrange(6)
    if what == 0:
        return array.astype(
            rng.choice(["f2", "f8", "i1", "i8", "u8", "bool", "U9"]) if array.dtype.kind in "iuf" else "U1"
        )
    if what == 1:
        return array[: rng.randrange(array.shape[0] + 1)] if array.ndim else np.array([array] * rng.randrange(3))
    if what == 2:
        return array.reshape(rng.choice([(-1,), (1, *array.shape), (*array.shape, 1)]))
    if what == 3:
        return np.concatenate([array.ravel()] * rng.randint(2, 4))
    if array.dtype.kind not in "iuf" or not array.size:
        text = json.dumps(spoil_value(rng, {"task": "karel:A", "a": "b"}))
        return np.array(rng.choice([text, str(rng.choice(ODD))[:50]]).replace("\ud800", "\\ud800"))
    changed = array.copy()
    odd = (
        [-1, 1, 127, 2**31 - 1, 1e30, np.nan, np.inf]
        if array.dtype.kind == "f"
        else [-(2**31), -1, 0, 3, 127, 2**31 - 1]
    )
    changed.flat[rng.randrange(array.size)] = np.array(rng.choice(odd)).astype(array.dtype)
    return changed


def odd_npz(rng: random.Random) -> bytes:
    """An archive with the right names, but arrays of any type, any claimed shape and any compression."""
    buffer = io.BytesIO()
    method = rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
    with zipfile.ZipFile(buffer, "w", method) as archive:
        names = rng.sample(MEMBERS, rng.randint(3, len(MEMBERS)))
        large = rng.choice(names) if rng.random() < 0.05 else None
        for name in names:
            shape = tuple(rng.choice([0, 1, 2, 3, 4, 10**9, 2**62, -1]) for _ in range(rng.randrange(4)))
            header = repr({"descr": rng.choice(DTYPES), "fortran_order": rng.random() < 0.5, "shape": shape}).encode()
            body = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + rng.randbytes(rng.randrange(64))
            archive.writestr(f"{name}.npy", body + bytes((1 << 26) if name == large else rng.choice([0, 0, 1 << 16])))
    return buffer.getvalue()


def odd_table(rng: random.Random) -> pa.Table:
    """A table whose columns have the right names and any contents, perhaps in very many equal rows."""
    rows = rng.choice([1, 1000, 3_000_000] + [6] * 27)
    names = ["trace", "step", "action", "observation.x", "observation", "stack", "kept", "metadata.m"]
    columns = {}
    for name in rng.sample(names, rng.randint(2, len(names))):
        kind = rng.randrange(8)
        value = [1, 1.5, "a", True, None, ["a", "b"], [1], "x" * 50_000][kind]
        if rows > 1000:
            columns[name] = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), pa.array([value]))
            if not isinstance(value, str):
                columns[name] = pa.array(np.full(rows, float(kind)))
        else:
            columns[name] = pa.array([value if rng.random() < 0.9 else None for _ in range(min(rows, 1000))])
    table = pa.table(columns)
    if rng.random() < 0.5:
        facts = {rng.choice(["action_names", "observation_shape", "attributes", "procedures"]): rng.choice(ODD)}
        table = table.replace_schema_metadata({"hvil": json.dumps(facts)})
    return table
