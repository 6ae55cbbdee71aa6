"""Nobody reads, writes or deletes around the gate: the source itself is searched for calls that would."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "hvil"

CLOSED = (
    *("os", "io", "json", "tomllib", "shutil", "tempfile", "subprocess", "socket", "urllib.request", "ctypes", "mmap"),
    *("zipfile", "tarfile", "gzip", "bz2", "lzma", "zlib", "h5py", "pickle", "marshal", "shelve", "yaml", "sqlite3"),
    *("runpy", "importlib.util", "importlib.resources", "safetensors", "webbrowser", "filelock", "PIL.Image.open"),
    *("open", "exec", "eval", "compile", "input", "__import__"),
    *("numpy.load", "numpy.save", "numpy.savez", "numpy.savez_compressed", "numpy.fromfile", "numpy.loadtxt"),
    *("numpy.genfromtxt", "numpy.memmap", "numpy.lib", "torch.load", "torch.save", "torch.jit", "torch.hub"),
)
"""Modules and functions that open, remove, unpack or run something."""
HARMLESS = (
    *("os.path", "os.environ", "os.fspath", "os.cpu_count", "os.sched_getaffinity", "os.nice", "os._exit", "os.fstat"),
    *("io.BytesIO", "io.StringIO", "json.dump", "json.dumps", "shutil.which", "safetensors.SafetensorError"),
    *("safetensors.torch.load", "safetensors.torch.save"),  # they take and give bytes, not names of files
)
"""What those modules hold that does nothing of the kind."""
METHODS = {
    *("read_text", "read_bytes", "write_text", "write_bytes", "unlink", "rmdir", "open", "touch", "symlink_to"),
    *("hardlink_to", "chmod", "rename", "tofile"),
}
"""Methods of paths and arrays that do."""
OPENERS = (
    *("pyarrow.input_stream", "pyarrow.memory_map", "pyarrow.OSFile", "pyarrow.parquet.ParquetFile"),
    *("pyarrow.parquet.read_table", "pyarrow.parquet.read_metadata", "pyarrow.parquet.read_schema"),
    *("pyarrow.csv.read_csv", "pyarrow.csv.open_csv", "pyarrow.json.read_json", "pyarrow.json.open_json"),
    *("pyarrow.ipc.open_file", "pyarrow.ipc.open_stream", "pyarrow.feather.read_table", "pyarrow.dataset.dataset"),
)
"""Other libraries' readers: they get a file that `regular_file` has looked at, or a stream that was opened so."""
STREAMS = {"stream", "source"}
"""The names of such streams: a name given by `with OPENER(…) as NAME`."""

ALLOWED = {
    ("analysis/report/page.py", "importlib.resources.files"),  # an asset of the package
    ("analysis/report/page.py", "read_text"),  # idem
    ("analysis/explain/python_file.py", "read_text"),  # a template of the package, and our own source
    ("analysis/explain/interpreter.py", "compile"),  # the expressions of a program that the package has checked
    ("analysis/explain/interpreter.py", "eval"),  # idem
    ("data/tasks.py", "eval"),  # an expression in the source of a domain
    ("domains/mnist_parity/digits.py", "importlib.resources.files"),  # the images of the package
    ("domains/mnist_parity/digits.py", "importlib.resources.as_file"),  # idem
    ("domains/mnist_parity/digits.py", "numpy.load"),  # idem
    ("domains/mnist_parity/digits.py", "zlib.decompressobj"),  # no further than the size that the file must have
    ("domains/mnist_parity/digits.py", "urllib.request.urlopen"),  # asks the gate first: `refuse_if_confined`
    ("analysis/segment_files.py", "unlink"),  # its own temporary file
    ("analysis/segment_files.py", "pyarrow.parquet.ParquetFile"),  # idem
    ("training/restarts.py", "shutil.copy2"),  # the best restart, in a run directory that the gate has looked through
    ("training/restarts.py", "shutil.copytree"),  # idem
    ("training/restarts.py", "tempfile.TemporaryDirectory"),  # for runs that are kept in memory
    ("training/checkpoints.py", "os.rename"),  # a checkpoint that is whole gets its name
    ("training/checkpoints.py", "rename"),  # idem
    ("training/hub.py", "tempfile.TemporaryDirectory"),  # what is fetched is looked at there, and kept if it is a run
    ("training/hub.py", "rename"),  # idem
    ("training/watching.py", "subprocess.Popen"),  # our own server, with words of our own
    ("experiments/bench/system.py", "subprocess.run"),  # our own command, with words of our own
    ("experiments/bench/system.py", "tempfile.TemporaryDirectory"),  # idem
    ("experiments/experiment_files.py", "importlib.util.spec_from_file_location"),  # behind `--trust`
    ("experiments/experiment_files.py", "importlib.util.module_from_spec"),  # idem
    ("experiments/variants.py", "json.loads"),  # a word of the command line
    ("cli/commands/demo.py", "json.loads"),  # what a command of ours has just printed
    ("cli/commands/doctor.py", "tempfile.TemporaryFile"),  # whether one can be written
    ("cli/main.py", "os.open"),  # /dev/null, in the place of streams that the caller closed
    ("cli/main.py", "os.fdopen"),  # idem
    ("cli/main.py", "os.dup2"),  # idem
}
"""What the calls above are outside the gate, and why they may be."""


def words(node: ast.expr) -> str:
    """`os.path.join` of a call's function."""
    if isinstance(node, ast.Attribute):
        return f"{words(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "…"


def is_in(name: str, places: tuple[str, ...]) -> bool:
    return any(name == place or name.startswith(f"{place}.") for place in places)


def imported(tree: ast.AST) -> dict[str, str]:
    """The whole names of what a module imports, by the names that it gives them."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return names


def asks_the_gate(call: ast.Call) -> bool:
    """Whether a file is named by `regular_file(…)`, perhaps as text, or is a stream that was opened so."""
    if not call.args:
        return False
    first = call.args[0]
    by_name = isinstance(first, ast.Name) and first.id in STREAMS
    parts = (part for part in ast.walk(first) if isinstance(part, ast.Call))
    return by_name or any(words(part.func) == "regular_file" for part in parts)


def offence(call: ast.Call, names: dict[str, str]) -> str | None:
    """What a call does around the gate; None if nothing."""
    head, _, rest = words(call.func).partition(".")
    called = ".".join(filter(None, (names.get(head, head), rest)))
    if is_in(called, OPENERS):
        return None if asks_the_gate(call) else called
    if is_in(called, CLOSED) and not is_in(called, HARMLESS):
        return called
    if isinstance(call.func, ast.Attribute) and call.func.attr in METHODS and not is_in(called, HARMLESS):
        return call.func.attr
    return None


def offences() -> Iterator[tuple[str, int, str]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name.startswith("gate/") or "/templates/" in name:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = imported(tree)
        for node in ast.walk(tree):
            found = offence(node, names) if isinstance(node, ast.Call) else None
            if found is not None:
                yield name, node.lineno, found


def test_files_are_opened_and_removed_by_the_gate_alone() -> None:
    found = list(offences())
    assert [entry for entry in found if (entry[0], entry[2]) not in ALLOWED] == []
    assert {(name, called) for name, _, called in found} >= ALLOWED, "an exception that nobody needs any more"


@pytest.mark.parametrize(
    "source",
    [
        "open(x)",
        "from json import loads as l; l(x)",
        "import numpy as n; n.load(x)",
        "from pathlib import Path; Path(x).read_text()",
        "import shutil; shutil.rmtree(x)",
        "import pyarrow.parquet as pq; pq.ParquetFile(x)",
        "from pyarrow import csv; csv.read_csv(str(x))",
        "import os; os.remove(x)",
        "from safetensors.torch import load_file; load_file(x)",
    ],
)
def test_the_search_finds_what_it_looks_for(source: str) -> None:
    tree = ast.parse(source)
    assert any(offence(node, imported(tree)) for node in ast.walk(tree) if isinstance(node, ast.Call))


def test_the_console_of_rich_is_made_by_the_gate_alone() -> None:
    """Every other console would understand names as markup."""
    users = [
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if "rich.console" in path.read_text(encoding="utf-8") or "rich.markup" in path.read_text(encoding="utf-8")
    ]
    assert users == ["gate/text.py"]
