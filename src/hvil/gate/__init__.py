"""The border to the outside: errors for people, files, settings and their flags, the terminal's progress.

Everything else imports from here; this room imports from no other.
"""
