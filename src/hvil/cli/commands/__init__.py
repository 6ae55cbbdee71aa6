"""One module a command: `SUMMARY`, `EXAMPLES`, `configure(parser)`, `run(args)`. `run` returns what `--json` prints."""
