"""The command line: `main` parses, one module of `commands` does the work, heavy imports inside its `run`."""
