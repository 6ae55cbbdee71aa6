"""The report: what is recorded of an episode, what the page holds, and that names from data stay text."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corridor import CorridorTask
from scripted_run import hostile_traces, scripted_explanation, scripted_run, without_task

import hvil
from hvil.analysis.episodes import record
from hvil.analysis.report import RunFacts, report_page
from hvil.analysis.report.content import curves_content, program_content
from hvil.analysis.report.distributions import with_distributions
from hvil.analysis.report.episodes import Episode, count_calls, each_episode, selected
from hvil.analysis.report.page import embedded, page
from hvil.analysis.report.pictures import album
from hvil.cli.main import main
from hvil.data.tasks import DOMAINS, find_task
from hvil.machine import reference
from hvil.training.run import Run

HOSTILE = "</script><script>alert(\"x\")</script><img src=x onerror='alert(1)'>"


def contents(html: str) -> dict[str, Any]:
    """The data that a page embeds."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def episodes_of(run: Run) -> list[Episode]:
    traces, task = run.data.test, run.data.task
    assert traces is not None
    policy = run.policy
    return [
        with_distributions(episode, run.learner, policy, traces[episode.trace], run.config)
        for episode in each_episode(record(policy, traces, task), traces)
    ]


def page_of(run: Run, **facts: Any) -> dict[str, Any]:
    """The data of a run's page, without an explanation."""
    traces = run.data.test or run.data.training
    task = run.data.task if traces.metadata else None
    return contents(report_page(RunFacts("run", run.config, **facts), run.learner, traces, task).html)


def test_a_recorded_episode_replays_on_the_reference_machine() -> None:
    run, _ = scripted_run(None)
    graph = run.config.graph
    for episode in episodes_of(run):
        steps = episode.steps
        assert steps is not None
        moments = reference.replay(graph, episode.actions, episode.choices)
        assert [(moment.time, len(moment.stack)) for moment in moments] == list(
            zip(episode.times, steps.depth.tolist(), strict=True)
        )
        frames = zip(steps.procedure.tolist(), steps.counter.tolist(), steps.last.tolist(), strict=True)
        assert [moment.stack[-1] for moment in moments] == list(frames)


def test_success_and_divergence_are_told_apart() -> None:
    run, _ = scripted_run(None)
    episodes = episodes_of(run)
    assert [e.result.success for e in episodes] == [True, False, True, False, True, True]
    for episode in episodes:
        assert (episode.divergence is None) is (episode.emitted == episode.teacher)


def test_posterior_is_shown_only_while_the_episode_is_on_the_teachers_trace() -> None:
    run, _ = scripted_run(None)
    for episode in episodes_of(run):
        assert episode.posterior is not None
        until = len(episode.teacher) if episode.divergence is None else episode.divergence
        for time, choice, q in zip(episode.times, episode.choices, episode.posterior, strict=True):
            assert np.isfinite(q).any() == (time <= until)
            if time <= until:
                assert np.nansum(q) == pytest.approx(1, abs=1e-5)
            if time < until:
                assert np.isfinite(q[choice])


@pytest.mark.parametrize(("model", "settings"), [("hvil", {"hidden": 16, "context": 4}), ("lstm", {"units": 8})])
def test_recording_the_steps_changes_no_action_and_p_favours_each_choice(model: str, settings: Any) -> None:
    task = find_task("karel:F")
    traces = task.demonstrations(20, seed=0)
    run = hvil.fit(traces, test=traces, model=model, updates=5, **settings)
    policy = run.policy
    with_steps, without = record(policy, traces, task), record(policy, traces, task, details=False)
    np.testing.assert_array_equal(with_steps.emitted, without.emitted)
    np.testing.assert_array_equal(with_steps.success, without.success)
    for episode in episodes_of(run)[:5]:
        assert episode.policy is not None
        np.testing.assert_allclose(np.nansum(episode.policy, axis=1), 1, atol=1e-5)
        np.testing.assert_array_equal(np.nanargmax(episode.policy, axis=1), episode.choices)


def test_calls_are_counted_over_all_episodes() -> None:
    run, _ = scripted_run(None, mistakes=())
    graph = run.config.graph
    assert run.data.test is not None
    recorded = record(run.policy, run.data.test, run.data.task)
    assert recorded.steps is not None
    counts = count_calls(recorded.steps, graph)
    assert sum(counts.acts.values()) == (recorded.emitted < graph.terminate).sum()
    returns = (recorded.steps.choice == graph.terminate).sum()
    assert sum(counts.calls.values()) == returns - len(recorded)


def test_a_success_and_a_failure_come_first() -> None:
    run, _ = scripted_run(None)
    shown = selected(episodes_of(run), 4)
    assert [e.result.success for e in shown[:2]] == [True, False]
    assert len({e.trace for e in shown}) == 4


def test_observations_are_shown_in_the_words_of_the_program() -> None:
    data = page_of(scripted_run(None)[0])
    shown = dict(zip(data["observations"], data["kinds"], strict=True))
    numbers, truths = dict.fromkeys(["value1", "value2", "length"], "number"), ["pointer1_at_end", "pointer2_at_end"]
    assert shown == numbers | dict.fromkeys(truths, "truth")
    for episode in data["episodes"]:
        for flat in episode["observations"]:
            assert dict(zip(flat[::2], flat[1::2], strict=True))[data["observations"].index("length")] in (3, 4, 5)


def test_pictures_are_kept_once_and_follow_the_actions() -> None:
    run, known = scripted_run(None)
    assert run.data.test is not None
    episodes = episodes_of(run)
    pictures = album(episodes, known, run.data.test, 10**7)
    assert len(set(pictures.uris)) == len(pictures.uris)
    for episode, at in zip(episodes, pictures.at, strict=True):
        assert len(at) == len(episode.actions) + 1
    few = album(episodes, known, run.data.test, 20_000)
    assert sum(map(len, few.uris)) < 25_000
    assert few.at[-1] == []


def test_the_page_is_one_file_with_everything_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, _ = scripted_run(tmp_path)
    (tmp_path / "evaluation.json").write_text('{"error": 0.25, "error_interval": [0.1, 0.5], "traces": 8}')
    lines = [{"update": i, "seconds": i, "error": 1 / i, "elbo": -3.0 * i} for i in range(1, 6)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    program = scripted_explanation("def bubble_sort():\n    swap()\n", run.config, teacher_agreement=0.5)
    monkeypatch.setattr("hvil.training.run.Run.explain", lambda run: program)
    path, made = run.report()
    html = path.read_text(encoding="utf-8")
    assert path == tmp_path / "report.html"
    assert path.stat().st_size < 5_000_000
    assert "@@" not in html
    assert not re.search(r"(?:src|href)=[\"'](?!#|data:)", html)
    assert "default-src 'none'" in html
    data = contents(html)
    shown = data["program"]
    assert (shown["source"], shown["warning"]) == (program.source, None)
    assert shown["teacher_agreement_interval"] == pytest.approx([0.469, 0.531], abs=0.001)
    assert (shown["error"], shown["traces"]) == (1, 6), "no list is sorted by one swap"
    assert shown["notes"][0] == "no hierarchy: one procedure does everything (bubble_sort)"
    assert data["evaluation"]["error_interval"] == [0.1, 0.5]
    assert [curve["name"] for curve in data["curves"]] == ["error", "elbo"]
    assert [e["success"] for e in data["episodes"][:2]] == [True, False]
    assert data["graph"]["procedures"] == list(run.config.graph.procedures)
    assert (made.played, made.episodes, made.program) == (6, 6, True)


def test_the_program_says_what_networks_in_use_ignore() -> None:
    run, _ = scripted_run(None)
    program = scripted_explanation("def bubble_sort():\n    swap()\n", run.config)
    ignored = {"bubble_sort": ("value1", "value2"), "reset": ("length",), "bubble": ()}
    shown = program_content(program, None, True, ignored)
    assert shown is not None
    assert shown["notes"][len(program.notes) :] == ["the network of bubble_sort ignores value1, value2"]


def test_names_from_data_cannot_leave_their_place() -> None:
    content = {"title": HOSTILE, "names": [HOSTILE, "\u2028", "@@policy@@"]}
    html = page(content)
    assert contents(html) == content
    assert "<script>alert" not in html

    class Tags(HTMLParser):
        found: list[str] = []  # noqa: RUF012

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.found.append(tag)
            assert not any(name == "onerror" for name, _ in attrs)

    tags = Tags()
    tags.feed(html)
    assert tags.found.count("script") == 2
    assert tags.found.count("img") == 1
    assert "<" not in embedded(content)


def test_traces_without_an_environment_are_followed_up_to_the_first_error(tmp_path: Path) -> None:
    traces = hostile_traces(HOSTILE)
    run = hvil.fit(traces, "chain:2", out=tmp_path / "run", updates=3, hidden=4, context=4, batch_size=4)
    data = page_of(run)
    assert data["pictures"] == []
    assert data["task"] == HOSTILE
    assert {len(e["pictures"]) for e in data["episodes"]} == {0}
    for episode in data["episodes"]:
        assert episode["success"] is (episode["divergence"] is None)
        assert ("left the trace" in episode["ending"]) is not episode["success"]
    reloaded = page_of(hvil.load(tmp_path / "run"))
    assert reloaded["episodes"] == data["episodes"]


def test_a_policy_without_procedures_has_a_distribution_and_no_graph() -> None:
    traces = without_task(hostile_traces("x"))
    run = hvil.fit(traces, model="lstm", updates=3, units=4, layers=1, batch_size=4)
    data = page_of(run)
    assert data["graph"] is None
    for episode in data["episodes"]:
        for choice, probabilities in episode["steps"]:
            assert sum(probabilities) == pytest.approx(data["scale"], abs=3)
            assert probabilities[choice] == max(probabilities)


def test_long_curves_are_thinned_and_gaps_left_out() -> None:
    lines = [{"update": i, "loss": float(i), "odd": None} for i in range(5000)]
    (curve,) = curves_content(lines)
    assert len(curve["points"]) <= 401
    assert curve["points"][-1] == [4999, 4999]


def test_a_report_stays_small_whatever_the_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    run, _ = scripted_run(None, count=8, mistakes=range(4), lengths="5-6")
    monkeypatch.setattr("hvil.analysis.report.report.PICTURE_BYTES", 60_000)
    monkeypatch.setattr("hvil.analysis.report.report.STEP_BYTES", 40_000)
    data = page_of(run)
    assert 1 <= len(data["episodes"]) < 8
    assert sum(map(len, data["pictures"])) < 65_000
    assert data["episodes"][0]["pictures"]


def test_the_command_writes_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "a.html"
    traces = without_task(hostile_traces("x"))
    hvil.fit(traces, test=traces, model="feedforward", out=tmp_path / "run", updates=2, units=4, batch_size=4)
    assert main(["report", str(tmp_path / "run"), "--out", str(out), "--episodes", "3", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["out"] == str(out)
    assert said["bytes"] == out.stat().st_size
    assert said["episodes"] == 3


def test_a_domain_that_does_not_draw_has_a_report_without_pictures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DOMAINS, "_registered", {"corridor": CorridorTask})
    run = tmp_path / "run"
    assert main(["fit", "corridor", "--test-traces", "10", "--out", str(run), "--json"]) == 0
    assert main(["report", str(run), "--json"]) == 0
    data = contents((run / "report.html").read_text(encoding="utf-8"))
    assert (data["task"], data["played"], data["pictures"]) == ("corridor:4", 10, [])
    assert not data["facts"]["on_traces"], "the episodes are played in the environment"
    assert capsys.readouterr().err == ""


def test_only_programs_that_can_be_read_are_shown_for_data_without_a_task(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    traces = without_task(hostile_traces("x"))
    run = hvil.fit(traces, out=tmp_path / "run", updates=2, hidden=4, context=4, batch_size=4)
    capsys.readouterr()

    def shown(lines: int, agreement: float) -> tuple[bool, str | None]:
        text = "def p0():\n" + "    x_a()\n" * (lines - 1)
        program = scripted_explanation(text, run.config, agreement, agreement)
        monkeypatch.setattr("hvil.training.run.Run.explain", lambda run: program)
        assert main(["report", str(tmp_path / "run"), "--json"]) == 0
        data = contents((tmp_path / "run" / "report.html").read_text(encoding="utf-8"))["program"]
        assert data["lines"] == lines
        assert json.loads(capsys.readouterr().out)["program"] is (data["source"] == text)
        return data["source"] == text, data["warning"]

    assert shown(10, 0.96) == (True, None)
    there, warning = shown(10, 0.9)
    assert there
    assert warning is not None
    assert "agrees with it on only 90.0% [88.0, 91.7] of 1,000 traces" in warning
    there, warning = shown(100, 1.0)
    assert not there
    assert warning is not None
    assert "has 100 lines" in warning
    assert not shown(10, 0.1)[0]


def test_bad_input_is_one_clear_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    traces = without_task(hostile_traces("x"))
    hvil.fit(traces, model="feedforward", out=run, updates=2, units=4, batch_size=4)
    capsys.readouterr()

    def refused(*arguments: str) -> str:
        assert main(["report", *arguments]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.count("\n") == 1
        return captured.err

    assert "not a run directory" in refused(str(tmp_path))
    assert "at least 1" in refused(str(run), "--episodes", "0")
    assert "does not exist" in refused(str(run), "--out", str(tmp_path / "nowhere" / "a.html"))
    (run / "evaluation.json").write_text("{")
    assert "evaluation.json: not JSON" in refused(str(run))
    (run / "evaluation.json").unlink()
    (run / "traces.npz").unlink()
    assert "no episode can be played" in refused(str(run))
    (run / "model.safetensors").unlink()
    assert "model.safetensors" in refused(str(run))
