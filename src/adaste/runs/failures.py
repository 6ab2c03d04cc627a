"""Why a run failed, in its folder for those who look later: else nobody could tell it from one that is being made."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from adaste._util.files import write_atomically
from adaste._util.signals import StoppedError

NAME = "problem.txt"


@contextmanager
def leaving_the_reason(folder: Path) -> Iterator[None]:
    """An error inside is left in the folder; that of an earlier start is removed."""
    forget_problem(folder)
    try:
        yield
    except StoppedError:
        raise
    except Exception as error:
        leave_problem(folder, str(error) or type(error).__name__)
        raise


def leave_problem(folder: Path, reason: str) -> None:
    """Write why the run in `folder` failed, in one line."""
    line = next((line.strip() for line in reason.splitlines() if line.strip()), "for no reason that is known")
    # Results are passed on: where their folder lies is nobody's business.
    for name in (folder.absolute(), folder):
        line = line.replace(f"{name}/", "")
    with suppress(OSError):  # a full disk may be the very reason
        write_atomically(folder / NAME, f"{line}\n".encode())


def forget_problem(folder: Path) -> None:
    """Remove what an earlier start has left."""
    (folder / NAME).unlink(missing_ok=True)


def read_problem(folder: Path) -> str | None:
    """Why the last start of the run in `folder` failed; None where it did not."""
    path = folder / NAME
    return path.read_text().strip() if path.exists() else None
