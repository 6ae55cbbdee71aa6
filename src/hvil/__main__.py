"""`python -m hvil` is the command `hvil`."""

import sys

from hvil.cli import main

sys.exit(main())
