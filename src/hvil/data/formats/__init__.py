"""One module a file format; `hvil.data.trace_files` picks the one that fits a name."""
