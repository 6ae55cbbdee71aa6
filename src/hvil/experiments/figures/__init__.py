"""The paper's figures, one module each: a table of cells, no control flow. What figures share is in `common`."""
