"""Text is text: whatever names hold, no output obeys them."""

import ast
import json
from pathlib import Path

import numpy as np
import pytest

import hvil
from hvil.cli.main import main
from hvil.data.traces import Traces

NASTY = (
    *("[/]", "pos[x]", "[red]", ":smile:", "\x1b]0;owned\x07", "x\nimport os; os.abort()", "$a$", "<b>", "'''\""),
    "\u202eabc",
)
"""Names that the terminal, rich, matplotlib, HTML, Python or a reader would take for something else."""


@pytest.fixture(scope="module")
def nasty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Traces whose actions and observations have such names."""
    path = tmp_path_factory.mktemp("nasty") / "a.npz"
    rng = np.random.default_rng(0)
    traces = Traces.from_episodes(
        [rng.integers(0, 2, (6, len(NASTY))).astype(np.float32) for _ in range(12)],
        [rng.integers(0, len(NASTY), 5) for _ in range(12)],
        NASTY,
        NASTY,
    )
    hvil.save_traces(traces, path)
    return path


class TestText:
    def test_names_are_shown_as_they_are(self, nasty: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["inspect", str(nasty)]) == 0
        shown = capsys.readouterr().out
        assert "\x1b" not in shown
        assert "\u202e" not in shown
        for name in ("[/]", "pos[x]", "[red]", ":smile:", "\\u001b]0;owned", "<b>", "x\\u000aimport os"):
            assert name in shown

    def test_json_stays_the_same_json(self, nasty: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["inspect", str(nasty), "--json"]) == 0
        assert set(json.loads(capsys.readouterr().out)["actions"]) <= set(NASTY)

    def test_nothing_that_is_written_obeys_a_name(
        self, nasty: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """One run over all outputs: terminal, program, Python file, report, picture of the graph."""
        graph = tmp_path / "graph.json"
        procedures = {name: {"calls": [other for other in NASTY if other != name][:2]} for name in NASTY}
        graph.write_text(json.dumps({"procedures": procedures, "max_depth": 3}))
        run = tmp_path / "run"
        arguments = ["--call-graph", str(graph), "--updates", "2", "--hidden", "4", "--context", "4"]
        assert main(["fit", str(nasty), "--out", str(run), "--no-baselines", *arguments]) == 0
        python = tmp_path / "program.py"
        capsys.readouterr()
        assert main(["explain", str(run), "--python", str(python)]) == 0
        shown = capsys.readouterr().out
        for text in (shown, python.read_text()):
            assert "\x1b" not in text
            tree = ast.parse(text)
            imported = {a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names}
            assert "os" not in imported
            calls = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
            assert "os.abort" not in calls
        page = (run / "report.html").read_text()
        assert "<b>" not in page.split("<script", 1)[1].replace("\\u003cb>", "")
        assert main(["graph", str(graph), "--dot"]) == 0
        assert "\x1b" not in capsys.readouterr().out

    def test_the_page_of_results_holds_no_html_and_no_link(self) -> None:
        from hvil.gate.text import in_markdown, in_markdown_code

        for text in ("<script>", "[x](http://evil)", "![x](http://evil)", "a|b", "&lt;b>", "\\<b>", "a\nb", "[a]: b"):
            escaped = in_markdown(text)
            assert "\n" not in escaped
            assert not [at for at in range(len(escaped)) if escaped[at] in "<|" and escaped[at - 1] != "\\"]
            assert "](" not in escaped.replace("\\](", "")
        assert in_markdown_code("a`b") == "`` a`b ``"

    def test_dollars_in_a_picture_are_dollars(self, tmp_path: Path) -> None:
        import matplotlib.pyplot as plt

        from hvil.gate.text import in_picture

        figure = plt.figure()
        figure.suptitle(in_picture(r"$\bad{ and $5 \$ $x$"))
        figure.savefig(tmp_path / "a.svg")
        plt.close(figure)
