"""The pages of the project, for tests that compare what they say with what is so."""

from pathlib import Path

ROOT = Path(__file__).parents[2]


def words(page: str) -> str:
    """The text of a page, however its lines are broken."""
    return " ".join((ROOT / page).read_text().split())
