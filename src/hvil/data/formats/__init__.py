"""File formats, one module for each, and what those with columns share; `hvil.data.trace_files` picks the format."""
