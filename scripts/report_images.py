"""Take the documentation's pictures of a report: `python scripts/report_images.py REPORT.html [STEP]`.

Needs Chromium and Playwright. Writes docs/images/report.png and docs/images/report_dark.png.
"""

import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

IMAGES = Path(__file__).parent.parent / "docs" / "images"
WIDTH, COLOURS = 1280, 256


def main(report: str, step: int) -> None:
    """Both colour schemes, from the top of the page to the end of the structure, at a step of the first episode."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for scheme, name in (("light", "report.png"), ("dark", "report_dark.png")):
            page = browser.new_page(viewport={"width": WIDTH, "height": 1000}, color_scheme=scheme)
            page.goto(Path(report).resolve().as_uri())
            page.locator("#slider").fill(str(step))
            page.locator("#slider").blur()
            bottom = page.evaluate("document.getElementById('structure').getBoundingClientRect().bottom")
            clip = {"x": 0, "y": 0, "width": WIDTH, "height": bottom + 16}
            page.screenshot(path=IMAGES / name, clip=clip, full_page=True)
            picture = Image.open(IMAGES / name).convert("RGB")
            picture.quantize(COLOURS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(
                IMAGES / name, optimize=True
            )
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 30)
