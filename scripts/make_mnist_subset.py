"""Make the packaged MNIST subset from a directory with the four original files.

    python scripts/make_mnist_subset.py DIRECTORY

Every ninth training image (the first 6,400 of them) and every tenth test image (1,000), in their original order, so
that the subset has the full set's mix of classes and of easy and hard writers. The same files give the same bytes.
"""

import sys
import zipfile
from pathlib import Path

import numpy as np

from hvil.domains.mnist_parity.digits import full_digits
from hvil.gate.errors import InputError
from hvil.gate.files import write_atomically

TARGET = Path(__file__).resolve().parent.parent / "src" / "hvil" / "domains" / "data" / "mnist_subset.npz"


def main(directory: str) -> None:
    """Write the subset and say how large it is."""
    train, test = (full_digits(split, Path(directory)) for split in ("train", "test"))
    arrays = {
        "train_images": train.images[::9][:6400],
        "train_labels": train.labels[::9][:6400],
        "test_images": test.images[::10],
        "test_labels": test.labels[::10],
    }
    write_atomically(TARGET, lambda path: write(path, arrays))
    print(f"{TARGET}: {TARGET.stat().st_size:,} bytes")


def write(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """An .npz file compressed with LZMA, a sixth smaller than numpy's own compression makes it."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        for name, array in arrays.items():
            member = zipfile.ZipInfo(f"{name}.npy")  # its date is fixed, unlike that of a file
            member.compress_type = zipfile.ZIP_LZMA
            with archive.open(member, "w") as file:
                np.lib.format.write_array(file, np.ascontiguousarray(array), allow_pickle=False)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        main(sys.argv[1])
    except InputError as error:
        sys.exit(f"error: {error}")
