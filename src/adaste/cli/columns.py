"""Tables in a terminal."""

from collections.abc import Sequence


def columns(rows: Sequence[tuple[str, ...]], text: str = "") -> None:
    """Print the rows that hold `text` as aligned columns."""
    rows = [row for row in rows if any(text in cell for cell in row)]
    if not rows and text:
        raise ValueError(f"nothing holds the text {text!r}")
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
