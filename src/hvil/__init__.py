"""Learn hierarchical control programs from demonstrations.

The names below are the public library; they are imported when first used, so that `import hvil` stays cheap.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hvil.gate.compiled_cache import choose_cache
from hvil.gate.errors import InputError

__version__ = "0.2.0"

CACHE_NOTE = choose_cache(Path(__file__).parent)
"""What to tell the user if compiled code cannot be kept; it is decided before numba is loaded."""

if TYPE_CHECKING:
    from hvil.data.sources import load_traces
    from hvil.data.trace_files import save as save_traces
    from hvil.data.traces import Annotations, Traces
    from hvil.machine.callgraph import CallGraph, call_graph
    from hvil.training.fit import fit
    from hvil.training.run import Run, load

_HOMES = {
    "Annotations": ("hvil.data.traces", "Annotations"),
    "CallGraph": ("hvil.machine.callgraph", "CallGraph"),
    "Run": ("hvil.training.run", "Run"),
    "Traces": ("hvil.data.traces", "Traces"),
    "call_graph": ("hvil.machine.callgraph", "call_graph"),
    "fit": ("hvil.training.fit", "fit"),
    "load": ("hvil.training.run", "load"),
    "load_traces": ("hvil.data.sources", "load_traces"),
    "save_traces": ("hvil.data.trace_files", "save"),
}

__all__ = [
    "Annotations",
    "CallGraph",
    "InputError",
    "Run",
    "Traces",
    "__version__",
    "call_graph",
    "fit",
    "load",
    "load_traces",
    "save_traces",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'hvil' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
