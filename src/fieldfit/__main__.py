"""`python -m fieldfit` is the command line."""

import sys

from fieldfit.cli import main

sys.exit(main())
