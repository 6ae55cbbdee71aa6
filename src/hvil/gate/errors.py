"""The one exception for bad input, and errors as one line. Every other room raises it; the command line catches it."""


class InputError(ValueError):
    """Something the user gave is wrong; the message says what, where, and what would be right."""


def one_line(error: object, longest: int | None = None) -> str:
    """What an error says, in one line; the name of its type if it says nothing.

    Args:
        error: an exception, or any message.
        longest: how many characters to keep, if other libraries' messages may be very long.
    """
    return (" ".join(str(error).split()) or type(error).__name__)[:longest]
