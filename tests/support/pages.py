"""Where the repository is, for tests of its pages and programs."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
