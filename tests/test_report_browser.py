"""The report in a browser, opened from disk without a network: it can be stepped, read and heard.

Needs Chromium and Playwright; where they are missing the tests are skipped, unless HVIL_REQUIRE_BROWSER is set.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browsing import launched, serious_violations
from scripted_run import hostile_traces, scripted_explanation, scripted_run

import hvil

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SIZES = {"desktop": (1280, 900), "phone": (390, 844)}
HOSTILE = "</script><script>window.broken=1</script><img src=x onerror='window.broken=1'>\"'&amp;"
PROGRAM = "def bubble_sort():\n    while not pointer1_at_end:  # <b>text</b>\n        ptr1_right()\n"


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Successes and failures, pictures, p and q, curves, an evaluation and a program."""
    directory = tmp_path_factory.mktemp("run")
    run, _ = scripted_run(directory)
    evaluation = {
        "error": 0.25,
        "error_interval": [0.1, 0.5],
        "traces": 8,
        "php_steps_per_action": 2.2,
        "procedures_in_use": 4.5,
    }
    (directory / "evaluation.json").write_text(json.dumps(evaluation))
    lines = [
        {"update": i, "seconds": i, "error": 1 / i, "training_error": 0.5 / i, "elbo": -9 / i} for i in range(1, 9)
    ]
    (directory / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    program = scripted_explanation(PROGRAM, run.config, policy_agreement=0.9, teacher_agreement=0.5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hvil.training.run.Run.explain", lambda run: program)
        return run.report()[0]


class Opened:
    """A page, and everything that went wrong in it."""

    def __init__(self, browser: "Browser", path: Path, size: str, scheme: str = "light") -> None:
        width, height = SIZES[size]
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, offline=True, has_touch=size == "phone"
        )
        self.context.set_default_timeout(60_000)
        self.requests: list[str] = []
        self.problems: list[str] = []
        self.page: Page = self.context.new_page()
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.problems.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.goto(path.as_uri())

    def state(self) -> dict[str, Any]:
        """Where the player is, by its parts."""
        return self.page.evaluate("""() => {
            const part = (id) => document.getElementById(id);
            const [player, image, slider] = ['player', 'picture-image', 'slider'].map(part);
            const left = (element) => element.getBoundingClientRect().x;
            return {
                step: Number(player.dataset.step),
                shown: Number(player.dataset.shown),
                time: Number(player.dataset.time),
                slider: Number(slider.value),
                spoken: slider.getAttribute('aria-valuetext'),
                picture: image.src,
                picture_time: Number(image.dataset.time),
                now: part('now').textContent,
                cursor: left(document.querySelector('.cursor')) - left(part('detail')),
                episode: part('episode').value,
            };
        }""")

    def data(self) -> dict[str, Any]:
        return json.loads(self.page.locator("#data").text_content() or "")

    def check(self) -> None:
        """Nothing was complained about, nothing was asked of the network, nothing sticks out."""
        assert self.problems == []
        assert [url for url in self.requests if not url.startswith(("file:", "data:"))] == []
        wide, room = self.page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        assert wide <= room


@pytest.fixture(params=list(SIZES))
def opened(request: pytest.FixtureRequest, browser: "Browser", report: Path) -> Iterator[Opened]:
    opened = Opened(browser, report, request.param)
    yield opened
    opened.check()
    opened.context.close()


def expected_time(data: dict[str, Any], episode: int, step: int) -> int:
    """How many actions come before a step."""
    return sum(entry[0] < len(data["actions"]) for entry in data["episodes"][episode]["steps"][:step])


def test_keys_and_slider_move_timeline_and_picture_in_step(opened: Opened) -> None:
    data = opened.data()
    steps = len(data["episodes"][0]["steps"])

    def in_step(step: int) -> dict[str, Any]:
        state = opened.state()
        time = expected_time(data, 0, step)
        assert (state["step"], state["slider"], state["time"], state["picture_time"]) == (step, step, time, time)
        assert state["picture"] == data["pictures"][data["episodes"][0]["pictures"][time]]
        assert state["now"] == state["spoken"]
        if step < steps:
            assert state["now"].startswith(f"Step {step + 1} of {steps}, time {time}: ")
        return state

    before = in_step(0)
    page = opened.page
    for step in (1, 2, 3):
        page.keyboard.press("ArrowRight")
        state = in_step(step)
        assert state["cursor"] > before["cursor"], "the cursor moves to the right on the timeline"
        before = state
    page.keyboard.press("ArrowLeft")
    in_step(2)
    page.locator("#slider").focus()
    page.keyboard.press("End")
    assert in_step(steps)["now"].startswith("End of")
    page.keyboard.press("Home")
    in_step(0)
    page.locator("#slider").fill(str(steps // 2))
    in_step(steps // 2)
    page.locator("#forward").click()
    in_step(steps // 2 + 1)
    page.locator("#first").click()
    page.keyboard.press("ArrowDown")
    state = opened.state()
    assert data["episodes"][0]["steps"][state["step"]][0] < len(data["actions"]), "down goes to the next action"
    in_step(state["step"])


def test_play_runs_and_pauses(opened: Opened) -> None:
    page = opened.page
    page.locator("#speed").select_option("50")
    page.locator("#play").click()
    assert page.locator("#now").get_attribute("aria-live") == "off"
    # Not wait_for_function: it evaluates text, which the page's content policy forbids.
    for _ in range(100):
        if opened.state()["step"] >= 3:
            break
        page.wait_for_timeout(50)
    assert opened.state()["step"] >= 3
    page.locator("#play").click()
    stopped = opened.state()["step"]
    page.wait_for_timeout(300)
    assert opened.state()["step"] == stopped
    assert page.locator("#now").get_attribute("aria-live") == "polite"


def test_another_episode_can_be_chosen(opened: Opened) -> None:
    page = opened.page
    data = opened.data()
    assert page.locator("#shortcuts button").all_text_contents() == ["✓ A success", "✗ A failure"]
    assert "Success" in (page.locator("#episode-facts").text_content() or "")
    page.keyboard.press("ArrowRight")
    page.locator("#shortcuts button").nth(1).click()
    state = opened.state()
    assert (state["episode"], state["step"]) == ("1", 0)
    assert state["picture"] == data["pictures"][data["episodes"][1]["pictures"][0]]
    assert "Failure" in (page.locator("#episode-facts").text_content() or "")
    assert page.locator(".divergence").count() > 0
    page.locator("#episode").select_option("2")
    assert opened.state()["episode"] == "2"
    page.locator("#title").click()
    page.keyboard.press("]")
    assert opened.state()["episode"] == "3"
    page.keyboard.press("[")
    assert opened.state()["episode"] == "2"


def test_the_distribution_appears_for_the_step_that_is_pointed_at(opened: Opened) -> None:
    page = opened.page
    assert page.locator(".distribution .chosen .fill.p").count() == 1
    assert page.locator(".distribution .fill.q").count() > 0
    assert "90.0%" in (page.locator(".distribution .chosen").text_content() or "")
    before = opened.state()
    cell = page.locator(".step .cell").nth(4)
    cell.scroll_into_view_if_needed()
    box = cell.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 5)
    state = opened.state()
    assert (state["shown"], state["step"]) == (4, before["step"])
    assert state["now"].startswith("Step 5 of")
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 5)
    page.mouse.move(2, 2)
    assert opened.state()["step"] == 4
    frames = page.locator(".stack tbody tr").count()
    assert frames >= 1


def test_graph_program_curves_and_settings_are_there(opened: Opened) -> None:
    page = opened.page
    assert page.locator("#graph .node").count() == 6
    assert page.locator("#graph .edge").count() == 5
    assert page.locator("#program-source").text_content() == PROGRAM
    assert page.locator("#program-source b").count() == 0
    facts = page.locator("#program-facts").text_content() or ""
    assert "50.0% with the teacher (46.9% to 53.1%)" in facts
    assert "its own error is 100% of 6 test traces" in facts
    assert "This policy is too tangled to explain well" in (page.locator("#program-warning").text_content() or "")
    assert "no hierarchy" in (page.locator("#program-notes").text_content() or "")
    assert "Error of the program" in (page.locator("#summary").text_content() or "")
    assert page.locator("#curves .line").count() == 3
    assert "25.0%" in (page.locator("#summary").text_content() or "")
    assert "4.5 of 6" in (page.locator("#summary").text_content() or "")
    assert "entropy_weight" in (page.locator("#settings").text_content() or "")


def test_a_step_shows_its_line_of_the_program_and_terms_are_explained(opened: Opened) -> None:
    page, data = opened.page, opened.data()
    steps = [entry[0] for entry in data["episodes"][0]["steps"]]
    first = PROGRAM.splitlines(keepends=True)[0]
    assert page.locator(".program-line.current").all_text_contents() == [first], "the root does something else first"
    assert page.locator("#stack a").first.get_attribute("href") == "#line-0"
    assert steps[0] > len(data["actions"]), "the first step of the scripted policy is a call"
    words = page.locator("#summary .term")
    assert "wrong action" in (words.first.get_attribute("title") or "")
    words.first.focus()
    assert "wrong action" in words.first.evaluate("word => getComputedStyle(word, '::after').content")


def test_the_theme_follows_the_system_and_the_button(browser: "Browser", report: Path) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    light, dark = (Opened(browser, report, "desktop", scheme) for scheme in ("light", "dark"))
    assert light.page.evaluate(background) != dark.page.evaluate(background)
    light.page.locator("#theme").click()
    assert light.page.evaluate(background) == dark.page.evaluate(background)
    for opened in (light, dark):
        opened.check()
        opened.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", list(SIZES))
def test_axe_finds_no_serious_violation(browser: "Browser", report: Path, scheme: str, size: str) -> None:
    opened = Opened(browser, report, size, scheme)
    page = opened.page
    page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
    page.keyboard.press("ArrowRight")
    assert serious_violations(page) == []
    opened.check()
    opened.context.close()


@pytest.mark.parametrize("model", ["hvil", "lstm"])
def test_hostile_names_are_shown_as_text(browser: "Browser", tmp_path: Path, model: str) -> None:
    traces = hostile_traces(HOSTILE)
    graph = {"root": HOSTILE, "procedures": {HOSTILE: {"calls": ["<b>sub</b>"]}, "<b>sub</b>": {}}}
    size = {"hidden": 4, "context": 4} if model == "hvil" else {"units": 4}
    run = hvil.fit(traces, graph, model=model, updates=2, batch_size=4, **size)
    path, _ = run.report(tmp_path / "report.html")
    opened = Opened(browser, path, "desktop")
    page = opened.page
    assert page.evaluate("window.broken") is None
    assert HOSTILE in (page.locator("#chips").text_content() or "")
    assert page.locator("#player b, #player img[src='x']").count() == 0
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("]")
    assert HOSTILE[:20] in (page.locator("#distribution").text_content() or "")
    assert page.locator("#stack-panel").is_visible() is (model == "hvil")
    assert page.locator("#graph").is_visible() is (model == "hvil")
    assert not page.locator("#picture").is_visible()
    opened.check()
    opened.context.close()
