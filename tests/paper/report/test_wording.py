"""Words that every form of text has."""

import pytest

from adaste.paper.report.texts import format_difference, format_heading
from adaste.paper.tables import TABLES


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.104, "+0.10"), (-0.104, "−0.10"), (-0.001, "+0.00"), (0.0, "+0.00"), (12.0, "+12.00")],  # noqa: RUF001
)
def test_a_difference_has_a_sign_and_is_never_minus_zero(value: float, text: str) -> None:
    assert format_difference(value) == text


def test_headings_are_those_of_the_tables() -> None:
    assert [format_heading(table).partition(":")[0] for table in TABLES.values()] == ["Table 1", "Table 2", "Ablation"]
