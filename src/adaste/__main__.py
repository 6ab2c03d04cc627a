"""`python -m adaste` is the command `adaste`."""

import sys

from adaste.cli import main

if __name__ == "__main__":
    sys.exit(main())
