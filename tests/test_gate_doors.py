"""Nobody reads, writes or deletes around the gate: the source itself is searched for calls that would."""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "hvil"

CALLS = {
    *("open", "os.open", "io.open", "os.fdopen", "os.remove", "os.unlink", "os.rmdir", "os.replace", "os.truncate"),
    *("json.load", "json.loads", "tomllib.load", "tomllib.loads", "np.load", "np.save", "np.savez", "np.fromfile"),
    *("np.loadtxt", "np.genfromtxt", "np.memmap", "shutil.rmtree", "shutil.move", "gzip.open", "gzip.decompress"),
    *("zipfile.ZipFile", "h5py.File", "safe_open", "save_file", "load_file", "torch.load", "torch.save"),
    *("pickle.load", "pickle.loads", "yaml.load", "os.system", "exec", "tempfile.mktemp"),
}
"""What opens, removes or runs something, by the words of the call."""
METHODS = {"read_text", "read_bytes", "write_text", "write_bytes", "unlink", "rmdir", "open", "touch", "symlink_to"}
"""Methods of paths that do."""
OPENERS = {
    *("pa.input_stream", "pa.memory_map", "pa.OSFile", "pq.ParquetFile", "pq.read_table", "pq.read_metadata"),
    *("csv.read_csv", "csv.open_csv", "feather.read_table"),
}
"""Other libraries' readers: they get a file that `regular_file` has looked at."""

ALLOWED = {
    ("analysis/report/page.py", "read_text"),  # an asset of the package
    ("analysis/explain/python_file.py", "read_text"),  # a template of the package, and our own source
    ("domains/mnist_parity/digits.py", "np.load"),  # the images of the package
    ("data/formats/csv.py", "csv.read_csv"),  # a stream that was opened by way of `regular_file`
    ("analysis/segment_files.py", "unlink"),  # its own temporary file
    ("analysis/segment_files.py", "pq.ParquetFile"),  # idem
    ("training/restarts.py", "unlink"),  # the record of a restart that is done again
    ("experiments/variants.py", "json.loads"),  # a word of the command line
    ("cli/commands/demo.py", "json.loads"),  # what a command of ours has just printed
    ("cli/main.py", "os.open"),  # /dev/null, in the place of streams that the caller closed
    ("cli/main.py", "os.fdopen"),  # idem
}
"""What the calls above are outside the gate, and why they may be."""


def words(node: ast.expr) -> str:
    """`os.path.join` of a call's function."""
    if isinstance(node, ast.Attribute):
        return f"{words(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "…"


def asks_the_gate(node: ast.expr) -> bool:
    """Whether a file is named by `regular_file(…)`, perhaps as text."""
    return any(isinstance(part, ast.Call) and words(part.func) == "regular_file" for part in ast.walk(node))


def offences() -> Iterator[tuple[str, int, str]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name.startswith("gate/") or "/templates/" in name:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            called = words(node.func)
            found = called if called in CALLS else None
            if found is None and isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
                found = node.func.attr
            if called in OPENERS and not (node.args and asks_the_gate(node.args[0])):
                found = called
            if found is not None and (name, found) not in ALLOWED:
                yield name, node.lineno, called


def test_files_are_opened_and_removed_by_the_gate_alone() -> None:
    assert list(offences()) == []


def test_the_console_of_rich_is_made_by_the_gate_alone() -> None:
    """Every other console would understand names as markup."""
    users = [
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if "rich.console" in path.read_text(encoding="utf-8") or "rich.markup" in path.read_text(encoding="utf-8")
    ]
    assert users == ["gate/text.py"]
