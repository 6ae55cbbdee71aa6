"""The model card of a run: its data, settings, errors and program on one Markdown page, as the Hub shows it."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import hvil
from hvil.analysis.explain import Explanation
from hvil.gate.errors import InputError
from hvil.gate.files import write_text
from hvil.gate.text import in_markdown, in_markdown_code
from hvil.training.evaluation_file import read_evaluation
from hvil.training.run import Run
from hvil.training.run_files import CARD

TAGS = ("hvil", "imitation-learning", "hierarchical", "program-induction")
LONGEST = 200
"""Characters of a name or a value that are shown."""
USE = """```python
import hvil

run = hvil.load("RUN")  # the directory that `hvil pull` made
action = run.policy.act(observation)
```"""


def write_card(run: Run, out: Path | None = None) -> Path:
    """Write the card, by default as `README.md` into the run's directory, where the Hub looks for it.

    Raises:
        InputError: the run is in memory only, and `out` does not say where to write.
    """
    if out is None:
        if run.path is None:
            raise InputError("this run has no directory; say where the card goes (out)")
        out = run.path / CARD
    write_text(out, card(run))
    return out


def card(run: Run) -> str:
    """The text of the card."""
    config = run.config
    name = in_markdown(run.path.resolve().name if run.path else config.task or "run")
    front = {"library_name": "hvil", "tags": list(TAGS), "pipeline_tag": "reinforcement-learning"}
    parts = [
        "---\n" + "".join(f"{key}: {json.dumps(value)}\n" for key, value in front.items()) + "---\n",
        f"# {name}\n",
        f"A policy of {_code(config.learner)}, learned from demonstrations by hvil {hvil.__version__}.\n",
        _section("Data", _data(run)),
        _section("Errors", _errors(run)),
        _section("Program", _program(run)),
        _section("Use", USE),
        _section("Settings", _settings(run)),
    ]
    return "\n".join(parts)


def _data(run: Run) -> str:
    config = run.config
    count = config.data.demos or (len(run.data.training) if run.knows_data else None)
    source = _code(config.task or config.data.source) if config.task or config.data.source else "traces from Python"
    rows = {
        "source": source,
        "training traces": "unknown" if count is None else f"{count:,}",
        "actions": ", ".join(map(_code, config.action_names)),
        "observation": ", ".join(map(_code, config.observation_names)) or f"of shape {config.observation_shape}",
        "updates": f"{run.updates:,}",
        "procedures": ", ".join(map(_code, config.graph.procedures)) if config.model.has_procedures else "none",
    }
    return _table(rows)


def _errors(run: Run) -> str:
    """What `evaluation.json` says, in words."""
    evaluation = read_evaluation(run.path)
    names = {
        "error": "error: test traces with at least one wrong action",
        "error_unseen": "the same, of traces not seen in training",
        "rollout_success": "roll-outs that did the task",
    }
    rows = {words: _share(evaluation, name) for name, words in names.items() if evaluation.get(name) is not None}
    if not rows:
        return "Not measured yet: `hvil evaluate` does it."
    return _table(rows | {"test traces": str(evaluation.get("traces", "unknown"))})


def _share(evaluation: Mapping[str, Any], name: str) -> str:
    interval = evaluation.get(f"{name}_interval")
    between = f" [{100 * interval[0]:.1f}, {100 * interval[1]:.1f}]" if interval else ""
    return f"{100 * evaluation[name]:.1f}%{between}"


def _program(run: Run) -> str:
    if not run.config.model.has_procedures:
        return "This policy has no procedures, and so no program."
    explanation: Explanation | None = run.kept_explanation
    if explanation is None:
        return "Not extracted yet: `hvil explain` does it."
    text = f"{explanation.text.strip()}\n\n# {explanation.fidelity}"
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)  # names come from data: none of them may end the block
    return f"{fence}python\n{text}\n{fence}"


def _settings(run: Run) -> str:
    config = run.config.to_mapping()
    rows = {name: _code(value) for name, value in {**config["data"], **config["model"], **config["training"]}.items()}
    return _table(rows)


def _section(title: str, text: str) -> str:
    return f"## {title}\n\n{text}\n"


def _table(rows: Mapping[str, str]) -> str:
    return "| | |\n|---|---|\n" + "\n".join(f"| {name} | {value} |" for name, value in rows.items())


def _code(value: Any) -> str:
    """A value as code in a cell of a table: whatever it holds, it ends neither."""
    return in_markdown_code(str(value)[:LONGEST]).replace("|", "\\|") if str(value) else "–"
