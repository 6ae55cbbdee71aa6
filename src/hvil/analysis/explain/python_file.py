"""An extracted program as a Python file: a function `act(observation, memory)` that needs numpy and nothing of ours.

The file is `templates/program.py`, filled in. It runs its program by a copy of `interpreter`, like the text whose
fidelity was measured. Where there is a task, the file can also play the program in the task's Gymnasium environment.
"""

import ast
import re
from collections.abc import Mapping
from pathlib import Path

from hvil.analysis.explain import interpreter
from hvil.analysis.explain.explanation import Explanation
from hvil.analysis.explain.vocabulary import Vocabulary
from hvil.data.reading import UNKNOWN_NAME
from hvil.data.tasks import Quantity
from hvil.gate.text import in_docstring

TEMPLATE = Path(__file__).parent / "templates" / "program.py"
PLAY = "# $PLAY\n"
"""Begins the part of the template that plays in an environment."""
IMPORTS = "import numpy as np\n\nfrom hvil.analysis.explain.interpreter import Interpreter, Memory\n"
"""What the template imports; the file has the interpreter itself instead."""


def python_file(explanation: Explanation) -> str:
    """The file's text."""
    words, task = explanation.words, explanation.task
    policy, play = TEMPLATE.read_text(encoding="utf-8").split(PLAY)
    imports, body = _interpreter()
    return filled(
        policy.rstrip() + "\n" if task is None else policy + play,
        {
            " $FOR": "" if task is None else f" for {in_docstring(task)}",
            "$FIDELITY": explanation.fidelity,
            "$PLAYING\n": "" if task is None else "Play it in the environment of hvil: python FILE [EPISODES] [SEED]\n",
            IMPORTS: f"{imports}\n\nimport numpy as np\n",
            '("$ACTIONS",)': repr(explanation.graph.action_names),
            '("$WORDS",)': repr(words.actions),
            "$PROGRAM": explanation.source.rstrip("\n"),
            "        # $QUANTITIES": _quantities(words),
            "# $INTERPRETER": body,
            '"$TASK"': repr(task),
        },
    )


def filled(template: str, values: Mapping[str, str]) -> str:
    """The template with a value for each placeholder; values are not searched for placeholders again."""
    # Longer placeholders come first, since one may contain another.
    placeholders = sorted(values, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, placeholders)), lambda match: values[match[0]], template)


def _interpreter() -> tuple[str, str]:
    """The imports of the interpreter's module, and all that follows them."""
    source = Path(interpreter.__file__).read_text(encoding="utf-8")
    imports = [part for part in ast.parse(source).body if isinstance(part, ast.Import | ast.ImportFrom)]
    lines = source.splitlines()
    first, last = imports[0].lineno, imports[-1].end_lineno
    return "\n".join(lines[first - 1 : last]), "\n".join(lines[last:]).strip("\n")


def _quantities(words: Vocabulary) -> str:
    """One entry of the dictionary for each quantity, in the type that the program meets."""
    return "\n".join(f'        "{quantity.name}": {_value(quantity)},' for quantity in words.quantities)


def _value(quantity: Quantity) -> str:
    """The expression of a quantity's value."""
    if quantity.categories:
        texts = dict(enumerate(quantity.categories))
        return f"{texts!r}.get(int({quantity.expression}), {UNKNOWN_NAME!r})"
    types = {"truth": "bool", "number": "float"}
    return f"{types.get(quantity.kind, 'int')}({quantity.expression})"
