"""MNIST digits: a real subset that comes with the package, and the full files from a directory or the mirror.

Every full file is checked by the MD5 of its uncompressed contents. What is done with the digits is left to
`task` and `environment`.
"""

import hashlib
import os
import urllib.request
import zlib
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import UInt8

from hvil.gate.errors import InputError
from hvil.gate.files import cache_directory, read_bytes, write_bytes

Split = Literal["train", "test"]

DIRECTORY_VARIABLE = "HVIL_MNIST"
"""The environment variable that names a directory with the four files."""

# The mirror that torchvision downloads from.
MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist/"
TIMEOUT_SECONDS = 60
LARGEST = 48 << 20
"""More than the largest of the files has, compressed or not, in bytes: no more is ever unpacked."""

FILES: dict[Split, tuple[str, str]] = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
MD5 = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}


class Digits(NamedTuple):
    """Images of handwritten digits with their labels."""

    images: UInt8[np.ndarray, "count 28 28"]
    labels: UInt8[np.ndarray, " count"]


def digits(split: Split, full: bool = False, directory: str | os.PathLike[str] | None = None) -> Digits:
    """The packaged subset, or all digits if `full`: from the directory, `$HVIL_MNIST`, the cache, or the mirror.

    Raises:
        InputError: a full file is missing, damaged, or cannot be downloaded.
    """
    if not full:
        return packaged_digits(split)
    directory = directory or named_directory()
    return full_digits(split, None if directory is None else Path(directory))


def named_directory() -> str | None:
    """The directory that the environment variable names, if any."""
    return os.environ.get(DIRECTORY_VARIABLE) or None


@cache
def packaged_digits(split: Split) -> Digits:
    """The subset inside the package: 6,400 training and 1,000 test images, evenly spread over the full set."""
    with (
        as_file(files("hvil.domains.mnist_parity") / "data" / "mnist_subset.npz") as path,
        np.load(path, allow_pickle=False) as arrays,
    ):
        return Digits(arrays[f"{split}_images"], arrays[f"{split}_labels"])


@cache
def full_digits(split: Split, directory: Path | None = None) -> Digits:
    """All 60,000 training or 10,000 test digits; without a directory, from the cache, downloaded if need be."""
    images, labels = (read_file(name, directory) if directory is not None else _cached(name) for name in FILES[split])
    return Digits(parse_idx(images).reshape(-1, 28, 28), parse_idx(labels))


def read_file(name: str, directory: Path) -> bytes:
    """The uncompressed contents of one of the four files, as it is or gzipped, checked by its MD5."""
    folders = (directory, directory / "raw", directory / "MNIST" / "raw")  # the latter two: torchvision's layout
    paths = [path for folder in folders for path in (folder / name, folder / f"{name}.gz") if path.is_file()]
    if not paths:
        raise InputError(f"{directory}: neither {name} nor {name}.gz is there; expected the four MNIST files")
    try:
        return _checked(name, read_bytes(paths[0], most=LARGEST), str(paths[0]))
    except OSError as error:
        raise InputError(f"{paths[0]}: cannot be read ({error.strerror})") from error


def parse_idx(contents: bytes) -> UInt8[np.ndarray, "..."]:
    """The array in an idx file of unsigned bytes: two zeros, the type, the number of dimensions, the shape."""
    if len(contents) < 4 or contents[:3] != b"\x00\x00\x08":
        raise InputError("not an idx file of unsigned bytes")
    dimensions = contents[3]
    shape = np.frombuffer(contents, dtype=">u4", count=dimensions, offset=4)
    return np.frombuffer(contents, dtype=np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def _cached(name: str) -> bytes:
    directory = cache_directory() / "mnist"
    if not (directory / f"{name}.gz").is_file():
        _download(name, directory)
    return read_file(name, directory)


def _download(name: str, directory: Path) -> None:
    url = f"{MIRROR}{name}.gz"
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as response:
            compressed: bytes = response.read(LARGEST)
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise InputError(
            f"{url}: cannot be downloaded ({reason}); offline, put the four MNIST files in a directory and set "
            f"{DIRECTORY_VARIABLE} to it, or use the packaged subset (a task without 'full', such as mnist-parity:0.7)"
        ) from error
    _checked(name, compressed, url)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{directory}: cannot be made ({error.strerror})") from error
    write_bytes(directory / f"{name}.gz", compressed)


def _checked(name: str, contents: bytes, where: str) -> bytes:
    """The uncompressed contents, if they are what they should be."""
    if contents[:2] == b"\x1f\x8b":
        unpacking = zlib.decompressobj(wbits=31)
        try:
            contents = unpacking.decompress(contents, LARGEST)
        except zlib.error as error:
            raise InputError(f"{where}: damaged gzip file ({error}); fetch it again") from error
        if not unpacking.eof:
            raise InputError(f"{where}: damaged gzip file (it ends too soon, or is too large); fetch it again")
    digest = hashlib.md5(contents, usedforsecurity=False).hexdigest()
    if digest != MD5[name]:
        raise InputError(f"{where}: damaged or not MNIST, the MD5 of its contents is {digest}, expected {MD5[name]}")
    return contents
