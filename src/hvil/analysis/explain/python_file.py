"""An extracted program as a Python file that plays it in the task's Gymnasium environment.

The file is `templates/program.py`, filled in. It runs on `stage`, like the text whose fidelity was measured.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from hvil.analysis.explain.explanation import Explanation
from hvil.analysis.explain.vocabulary import Vocabulary
from hvil.gate.errors import InputError

TEMPLATE = Path(__file__).parent / "templates" / "program.py"


def python_file(explanation: Explanation) -> str:
    """The file's text.

    Raises:
        InputError: there is no environment to run it in.
    """
    if explanation.task is None:
        raise InputError("a Python file needs an environment to run on; this run's data came from no known task")
    words, program = explanation.words, explanation.program
    procedures = [words.procedures[procedure] for procedure in (program.root, *program.blocks)]
    return filled(
        TEMPLATE.read_text(encoding="utf-8"),
        {
            '"$TASK"': repr(explanation.task),
            "$TASK": _in_docstring(explanation.task),
            "$FIDELITY": explanation.fidelity,
            '("$ACTIONS",)': repr(words.actions),
            '("$PROCEDURES",)': repr(tuple(dict.fromkeys(procedures))),
            "        # $QUANTITIES": _quantities(words),
            # A file has two empty lines between functions, the printed text has one.
            "# $PROGRAM": explanation.source.replace("\n\n", "\n\n\n").rstrip("\n"),
        },
    )


def filled(template: str, values: Mapping[str, str]) -> str:
    """The template with a value for each placeholder; values are not searched for placeholders again."""
    # Longer placeholders come first, since one may contain another.
    placeholders = sorted(values, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, placeholders)), lambda match: values[match[0]], template)


def _quantities(words: Vocabulary) -> str:
    """One entry of the dictionary for each quantity, in the type that the program meets."""
    types = {"truth": "bool", "number": "float"}
    return "\n".join(f'        "{q.name}": {types.get(q.kind, "int")}({q.expression}),' for q in words.quantities)


def _in_docstring(text: str) -> str:
    """A text that cannot end the docstring it stands in."""
    return text.replace("\\", "/").replace('"', "'")
