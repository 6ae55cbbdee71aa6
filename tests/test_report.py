"""The report: what is recorded of an episode, what the page holds, and that names from data stay text."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import hvil
from hvil.analysis.report import LARGEST, report_page, write_report
from hvil.analysis.report.content import curves_content
from hvil.analysis.report.episodes import Episode, chosen, count_calls, play, with_distributions
from hvil.analysis.report.page import embedded, page
from hvil.analysis.report.pictures import album
from hvil.cli.main import main
from hvil.machine import reference
from hvil.training.run import Run
from scripted_run import hostile_traces, scripted_run, without_task

HOSTILE = "</script><script>alert(\"x\")</script><img src=x onerror='alert(1)'>"


def contents(html: str) -> dict[str, Any]:
    """The data that a page embeds."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def episodes_of(run: Run) -> list[Episode]:
    traces, task = run.data.test, run.data.task
    assert traces is not None
    return [
        with_distributions(episode, run.learner, traces)
        for episode in play(run.policy, traces, task, range(len(traces)))
    ]


def test_a_recorded_episode_replays_on_the_reference_machine() -> None:
    run, _ = scripted_run(None)
    graph = run.config.graph
    for episode in episodes_of(run):
        moments = reference.replay(graph, episode.actions, [step.choice for step in episode.steps])
        for moment, step in zip(moments, episode.steps, strict=True):
            assert (step.time, step.depth) == (moment.time, len(moment.stack))
            assert moment.stack[-1] == (step.procedure, step.counter, step.last)


def test_success_and_divergence_are_told_apart() -> None:
    run, _ = scripted_run(None)
    episodes = episodes_of(run)
    assert [e.success for e in episodes] == [True, False, True, False, True, True]
    for episode in episodes:
        assert (episode.divergence is None) is (episode.actions == episode.teacher)


def test_posterior_is_shown_only_while_the_episode_is_on_the_teachers_trace() -> None:
    run, _ = scripted_run(None)
    for episode in episodes_of(run):
        for step in episode.steps:
            on_trace = episode.divergence is None or step.time <= episode.divergence
            assert (step.posterior is not None) is on_trace
            if step.posterior is not None:
                assert np.nansum(step.posterior) == pytest.approx(1, abs=1e-5)
                if episode.divergence is None or step.time < episode.divergence:
                    assert np.isfinite(step.posterior[step.choice])


def test_watching_takes_the_steps_of_acting() -> None:
    run, known = scripted_run(None)
    policy, watched = (type(run.learner).__mro__[1].policy(run.learner) for _ in range(2))
    environment = known.environment()
    observation, _ = environment.reset(seed=0)
    for _ in range(30):
        steps = watched.watch(observation)
        action = policy.act(observation)
        assert action == steps[-1].choice
        assert policy.stack == watched.stack
        assert np.nansum(steps[-1].probabilities) == pytest.approx(1, abs=1e-5)
        if action == len(policy.action_names):
            break
        observation, *_ = environment.step(action)


def test_calls_are_counted_over_all_episodes() -> None:
    run, _ = scripted_run(None, mistakes=())
    graph = run.config.graph
    episodes = episodes_of(run)
    counts = count_calls(episodes, graph.calls, graph.terminate)
    assert sum(counts.acts.values()) == sum(len(e.actions) for e in episodes)
    returns = sum(step.choice == graph.terminate for e in episodes for step in e.steps)
    assert sum(counts.calls.values()) == returns - len(episodes)


def test_a_success_and_a_failure_come_first() -> None:
    run, _ = scripted_run(None)
    shown = chosen(episodes_of(run), 4)
    assert [e.success for e in shown[:2]] == [True, False]
    assert len({e.trace for e in shown}) == 4


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


def test_the_page_is_one_file_with_everything_in_it(tmp_path: Path) -> None:
    run, _ = scripted_run(tmp_path)
    (tmp_path / "evaluation.json").write_text('{"error": 0.25, "error_interval": [0.1, 0.5], "traces": 8}')
    lines = [{"update": i, "seconds": i, "error": 1 / i, "elbo": -3.0 * i} for i in range(1, 6)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    program = SimpleNamespace(source="def run():\n    pass\n", lines=2, policy_agreement=1.0, teacher_agreement=0.5)
    path, made = write_report(run, program=program)
    html = path.read_text(encoding="utf-8")
    assert path == tmp_path / "report.html"
    assert path.stat().st_size < LARGEST
    assert "@@" not in html
    assert not re.search(r"(?:src|href)=[\"'](?!#|data:)", html)
    assert "default-src 'none'" in html
    data = contents(html)
    assert data["program"]["source"] == program.source
    assert data["evaluation"]["error_interval"] == [0.1, 0.5]
    assert [curve["name"] for curve in data["curves"]] == ["error", "elbo"]
    assert [e["success"] for e in data["episodes"][:2]] == [True, False]
    assert data["graph"]["procedures"] == list(run.config.graph.procedures)
    assert (made.played, made.episodes, made.program) == (6, 6, True)


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
    data = contents(report_page(run).html)
    assert data["pictures"] == []
    assert data["task"] == HOSTILE
    assert {len(e["pictures"]) for e in data["episodes"]} == {0}
    for episode in data["episodes"]:
        assert episode["success"] is (episode["divergence"] is None)
        assert ("left the trace" in episode["ending"]) is not episode["success"]
    reloaded = contents(report_page(hvil.load(tmp_path / "run")).html)
    assert reloaded["episodes"] == data["episodes"]


def test_a_policy_without_procedures_has_a_distribution_and_no_graph() -> None:
    traces = without_task(hostile_traces("x"))
    run = hvil.fit(traces, model="lstm", updates=3, units=4, layers=1, batch_size=4)
    data = contents(report_page(run).html)
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
    monkeypatch.setattr("hvil.analysis.report.PICTURES", 60_000)
    monkeypatch.setattr("hvil.analysis.report.STEPS", 40_000)
    data = contents(report_page(run).html)
    assert 1 <= len(data["episodes"]) < 8
    assert sum(map(len, data["pictures"])) < 65_000
    assert data["episodes"][0]["pictures"]


def test_the_command_writes_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "a.html"
    traces = without_task(hostile_traces("x"))
    hvil.fit(traces, model="feedforward", out=tmp_path / "run", updates=2, units=4, batch_size=4)
    assert main(["report", str(tmp_path / "run"), "--out", str(out), "--episodes", "3", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["out"] == str(out)
    assert said["bytes"] == out.stat().st_size
    assert said["episodes"] == 3


def test_only_programs_that_can_be_read_are_shown_for_data_without_a_task(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    traces = without_task(hostile_traces("x"))
    hvil.fit(traces, out=tmp_path / "run", updates=2, hidden=4, context=4, batch_size=4)
    capsys.readouterr()

    def shown(lines: int, agreement: float) -> bool:
        program = SimpleNamespace(
            source="act()\n", lines=lines, policy_agreement=agreement, teacher_agreement=agreement
        )
        monkeypatch.setattr("hvil.training.run.Run.explain", lambda run: program)
        assert main(["report", str(tmp_path / "run"), "--json"]) == 0
        return bool(json.loads(capsys.readouterr().out)["program"])

    assert shown(10, 0.9)
    assert not shown(100, 0.9)
    assert not shown(10, 0.1)


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
