"""The border to the outside: errors for people, files, settings and their flags, registries, the terminal's progress.

Every other room imports from here; this room imports from no other.
"""
