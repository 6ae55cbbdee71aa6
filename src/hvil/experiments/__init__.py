"""Experiments: tables of cells (`experiment`, `figures`), who runs them (`engine`), what they show (`outcome`).

`reproduce` leads from a table to its page, `comparison` makes a table from the words of `hvil compare`. `bench`, which
measures speed, stands apart.
"""
