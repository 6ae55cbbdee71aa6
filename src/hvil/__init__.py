"""Learn hierarchical control programs from demonstrations.

The names below are the public library; they are imported when first used, so that `import hvil` stays cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hvil.errors import InputError

__version__ = "0.1.0"

if TYPE_CHECKING:
    from hvil.callgraph import CallGraph, call_graph
    from hvil.run import Run, fit, load
    from hvil.traces import Annotations, Traces
    from hvil.traces_io import load as load_traces
    from hvil.traces_io import save as save_traces

_HOMES = {
    "Annotations": ("hvil.traces", "Annotations"),
    "CallGraph": ("hvil.callgraph", "CallGraph"),
    "Run": ("hvil.run", "Run"),
    "Traces": ("hvil.traces", "Traces"),
    "call_graph": ("hvil.callgraph", "call_graph"),
    "fit": ("hvil.run", "fit"),
    "load": ("hvil.run", "load"),
    "load_traces": ("hvil.traces_io", "load"),
    "save_traces": ("hvil.traces_io", "save"),
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
