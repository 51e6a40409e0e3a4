"""``python -m firebox``: the command line."""

import sys

from firebox.frontend.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
