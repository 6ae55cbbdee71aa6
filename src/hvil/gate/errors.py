"""The one exception for bad input. Every other room raises it; only the command line catches it."""


class InputError(ValueError):
    """Something the user gave is wrong; the message says what, where, and what would be right."""
