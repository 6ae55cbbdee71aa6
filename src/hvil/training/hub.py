"""Runs on the Hub: `push` sends the files of a run, `pull` fetches them. It needs the extra `hub`.

Traces are not sent: they may be private; so the report, which shows some of them, is sent only if somebody asks for
it, unless the traces are those of a task. What is fetched is opened as a run before it is kept; no pickle is read.
"""

import os
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

from hvil.gate.errors import InputError, one_line
from hvil.gate.files import remove_directory
from hvil.training.card import write_card
from hvil.training.execution import refuse_existing
from hvil.training.run import load
from hvil.training.run_files import CARD, CONFIG, EVALUATION, EXPLANATION, METRICS, MODEL, RECIPE, REPORT

FILES = (CONFIG, MODEL, METRICS, RECIPE, EVALUATION, EXPLANATION, REPORT, CARD)
"""What goes to the Hub and comes from it, as far as it is there."""
LONGEST_MESSAGE = 200


def push(path: Path, repository: str, *, private: bool = False, report: bool = False) -> str:
    """Send a run, with its card, to a repository of the Hub, which is made if it is not there.

    Args:
        path: the run directory.
        repository: `owner/name`.
        private: make a new repository private.
        report: send the report, too, if the run is one on traces of your own; it shows some of them.

    Returns:
        The address of the repository.

    Raises:
        InputError: no run is there, the extra is missing, or the Hub refuses.
    """
    hub = _hub()
    run = load(path)
    write_card(run)
    left_out = () if report or run.config.task else (REPORT,)
    try:
        address = hub.create_repo(repository, private=private, exist_ok=True)
        hub.upload_folder(
            repo_id=repository,
            folder_path=str(path),
            allow_patterns=[name for name in FILES if name not in left_out],
            commit_message="A run of hvil",
        )
    except Exception as error:
        raise _refused(repository, error) from error
    return str(address)


def pull(repository: str, out: Path) -> Path:
    """Fetch a run from the Hub into a new directory.

    Raises:
        InputError: the directory exists, the extra is missing, the Hub refuses, or what comes is no run.
    """
    refuse_existing(out)
    hub = _hub()
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as scratch:
        fetched = Path(scratch) / "run"
        try:
            hub.snapshot_download(repository, allow_patterns=list(FILES), local_dir=fetched)
        except Exception as error:
            raise _refused(repository, error) from error
        remove_directory(fetched / ".cache")  # notes of the library, not of the run
        try:
            load(fetched)
        except InputError as error:
            reason = one_line(str(error).replace(f"{fetched}/", ""), LONGEST_MESSAGE)
            raise InputError(f"{repository}: not a run of hvil ({reason})") from error
        fetched.rename(out)
    return out


def _hub() -> Any:
    """The library's interface to the Hub, or to the one that HF_ENDPOINT names."""
    try:
        library: Any = import_module("huggingface_hub")
    except ImportError as error:
        raise InputError("the Hub needs its library: pip install 'hvil[hub]'") from error
    if not sys.stderr.isatty():
        import_module("huggingface_hub.utils").disable_progress_bars()
    return library.HfApi(endpoint=os.environ.get("HF_ENDPOINT"))


def _refused(repository: str, error: Exception) -> InputError:
    """The library has many kinds of errors, for names, rights and the network; each is one line here."""
    return InputError(f"{repository}: the Hub refused ({one_line(error, LONGEST_MESSAGE)})")
