"""Makes the README's moving picture: `python scripts/player_gif.py REPORT.html [EPISODE]`, of a real run's report.

Needs Chromium and Playwright. Steps through one episode in the player and writes docs/images/player.gif.
"""

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

TARGET = Path(__file__).parent.parent / "docs" / "images" / "player.gif"
WIDTH, HEIGHT, SHOWN = 960, 900, 720
"""The page is drawn at `WIDTH`, and the picture is `SHOWN` pixels wide."""
FRAMES, MILLISECONDS, LAST = 60, 300, 2500
COLOURS = 64


def main(report: str, episode: int) -> None:
    """One picture a step, at most `FRAMES`, the last one for longer."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        page.goto(Path(report).resolve().as_uri())
        page.locator("#episode").select_option(str(episode))
        steps = int(page.locator("#slider").get_attribute("max") or 0)
        stage = page.locator(".stage")
        frames = []
        for step in range(min(steps, FRAMES) + 1):
            page.locator("#slider").fill(str(step))
            page.locator("#slider").blur()
            frames.append(_reduced(stage.screenshot()))
        browser.close()
    durations = [MILLISECONDS] * (len(frames) - 1) + [LAST]
    frames[0].save(TARGET, save_all=True, append_images=frames[1:], duration=durations, loop=0, optimize=True)
    print(f"{TARGET}: {len(frames)} pictures, {TARGET.stat().st_size / 1e3:.0f} kB")


def _reduced(picture: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    image = image.resize((SHOWN, round(image.height * SHOWN / image.width)), Image.Resampling.LANCZOS)
    return image.quantize(COLOURS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0)
