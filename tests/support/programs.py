"""Programs that stand in for others."""

import stat
from pathlib import Path


def program(folder: Path, name: str, text: str) -> None:
    """An executable of that name on the path."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
