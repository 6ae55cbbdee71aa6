"""The one exception for bad input, and errors as one line. Every other room raises it; the command line catches it."""

LONGEST = 1000
"""Characters of an error on the command line, at most: a message may quote a name of any length."""


class InputError(ValueError):
    """Something the user gave is wrong; the message says what, where, and what would be right."""


def one_line(error: object, longest: int | None = None) -> str:
    """What an error says, in one line; the name of its type if it says nothing.

    Args:
        error: an exception, or any message.
        longest: how many characters to keep, if other libraries' messages may be very long.
    """
    text = " ".join(str(error).split()) or type(error).__name__
    return text if longest is None or len(text) <= longest else f"{text[: longest - 1]}…"
