"""Text is text: names come from data and may hold anything, so each place where they are written escapes them here.

The terminal (control characters, the markup of rich), Markdown, HTML, labels of pictures, Graphviz, generated code.
"""

import builtins
import html
import keyword
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

_UNSEEN = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff"
"""Control characters, those that turn or hide text, and halves of characters, which no file can hold."""
_CONTROLS = re.compile(f"[{_UNSEEN}]")
_CONTROLS_AND_BREAKS = re.compile(f"[\t\n{_UNSEEN}]")


def visible(text: str) -> str:
    """The text with escapes for what a terminal would obey or not show; lines and tabs stay as they are.

    The escapes are those of JSON, so that a JSON text stays the same JSON text.
    """
    return _CONTROLS.sub(_escape, text)


def in_line(text: object) -> str:
    """A text that stays in its line: also line breaks and tabs are escaped."""
    return _CONTROLS_AND_BREAKS.sub(_escape, str(text))


def in_markdown(text: object) -> str:
    """A text in a line or a cell of Markdown that can be emphasised, but holds no HTML, no link and no picture."""
    return re.sub(r"(\\|<|\||\](?=[(\[:])|&(?=[#A-Za-z]))", r"\\\1", in_line(text))


def in_markdown_code(text: object) -> str:
    """A text as code in Markdown, whatever it holds."""
    code = in_line(text)
    longest = max((len(run) for run in re.findall("`+", code)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {code} {fence}" if longest else f"`{code}`"


def in_html(text: object) -> str:
    """A text that is nothing but text in HTML and SVG."""
    return html.escape(visible(str(text)))


def in_picture(text: object) -> str:
    """A text that matplotlib draws as it is: a dollar sign begins no formula."""
    return in_line(text).replace("$", r"\$")


def in_dot(text: object) -> str:
    """A quoted text for Graphviz."""
    lines = str(text).replace("\\", "\\\\").replace('"', '\\"').split("\n")
    return '"' + "\\n".join(map(in_line, lines)) + '"'


def in_docstring(text: object) -> str:
    """A text that cannot end the docstring that it stands in."""
    return in_line(text).replace("\\", "/").replace('"', "'")


def identifiers(names: Sequence[str], reserved: Collection[str] = ()) -> list[str]:
    """Different identifiers for any texts, as close to them as can be: `frontIsClear` becomes `front_is_clear`."""
    taken = {*keyword.kwlist, *keyword.softkwlist, *dir(builtins), *reserved}
    used: set[str] = set()
    numbers: dict[str, int] = {}
    result: list[str] = []
    for name in names:
        snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
        word = re.sub(r"\W+", "_", snake, flags=re.ASCII).strip("_").lower() or "x"
        word = f"x{word}" if word[0].isdigit() else word
        if word in taken:
            word += "_"
        base = word
        while word in used:
            numbers[base] = numbers.get(base, 1) + 1
            word = f"{base}_{numbers[base]}"
        used.add(word)
        result.append(word)
    return result


class _VisibleStream:
    """A stream of text that escapes what a terminal would obey."""

    def __init__(self, stream: Any) -> None:
        self.unescaped = stream

    def write(self, text: str) -> int:
        """Write a text; the number of its characters is the answer, as for every stream."""
        self.unescaped.write(visible(text))
        return len(text)

    def writelines(self, lines: Iterator[str]) -> None:
        """Write some texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unescaped, name)


@contextmanager
def visible_output() -> Iterator[None]:
    """While the block runs, whatever is printed on the two standard streams is escaped."""
    with redirect_stdout(_VisibleStream(sys.stdout)), redirect_stderr(_VisibleStream(sys.stderr)):
        yield


def console(stderr: bool = False, width: int | None = None) -> "Console":
    """A console of rich on which every text is text: no markup, no emoji, no control characters.

    Args:
        stderr: write to standard error.
        width: the least width in a file or a pipe.
    """
    # Here, because rich takes a while to load, and most commands print a line or two.
    from rich.console import Console
    from rich.text import Text

    class PlainConsole(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(visible(text), **(options | {"markup": False, "emoji": False}))

    stream = sys.stderr if stderr else sys.stdout
    made = PlainConsole(file=getattr(stream, "unescaped", stream), highlight=False)
    if width is not None and not made.is_terminal:
        made.width = max(made.width, width)
    return made


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"
