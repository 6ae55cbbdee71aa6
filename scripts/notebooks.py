"""Runs the notebooks of the documentation and stores their output in them: `python scripts/notebooks.py [NAME …]`."""

import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parents[1] / "docs" / "notebooks"


def main(names: list[str]) -> None:
    """Run each notebook in an empty directory, from its first cell to its last."""
    for path in [NOTEBOOKS / f"{name}.ipynb" for name in names] or sorted(NOTEBOOKS.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        with tempfile.TemporaryDirectory() as folder:
            NotebookClient(
                notebook, timeout=3600, resources={"metadata": {"path": folder}}, record_timing=False
            ).execute()
        nbformat.write(notebook, path)
        print(path.name)


if __name__ == "__main__":
    main(sys.argv[1:])
