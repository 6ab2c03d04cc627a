"""Why a run failed, in its folder for those who look later: else nobody could tell it from one that is being made."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from adaste.files import write_atomically
from adaste.signals import StoppedError

NAME = "problem.txt"


@contextmanager
def leaving_the_reason(folder: Path) -> Iterator[None]:
    """An error inside is left in the folder, in one line; that of an earlier start is removed."""
    path = folder / NAME
    path.unlink(missing_ok=True)
    try:
        yield
    except StoppedError:
        raise
    except Exception as error:
        first = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        # Results are passed on: where their folder lies is nobody's business.
        with suppress(OSError):  # a full disk may be the very reason
            write_atomically(path, f"{first.strip().replace(f'{folder}/', '')}\n".encode())
        raise


def read_problem(folder: Path) -> str | None:
    """Why the last start of the run in `folder` failed; None where it did not."""
    path = folder / NAME
    return path.read_text().strip() if path.exists() else None
