"""`python -m hvil` is the command `hvil`."""

import sys

from hvil.cli.main import main

sys.exit(main())
