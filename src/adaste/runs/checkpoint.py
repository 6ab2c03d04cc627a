"""Checkpoints: written atomically, named by their own digest, the last few kept; a corrupt one is never loaded.

A file is called `epoch-00012-step-000345-<digest>.pt`, with the digest of its content, which detects truncated and
altered files. Files are written by torch.save and loaded with weights_only, which runs no code from them.
"""

import hashlib
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from adaste._util.files import write_atomically

NAME = re.compile(r"epoch-(\d{5,})-step-(\d{6,})-([0-9a-f]{16})\.pt")


class DamagedCheckpointError(ValueError):
    """A checkpoint is corrupt: its content is not what was written."""


class RefusedCheckpointError(ValueError):
    """A file is whole, but it does not hold a checkpoint."""


class Checkpoints:
    """The checkpoints of one run in their folder; the last `keep` are kept."""

    def __init__(self, folder: Path, *, keep: int = 2) -> None:
        if keep < 1:
            raise ValueError(f"at least one checkpoint must be kept, got keep={keep}")
        self.folder, self._keep = folder, keep

    def save(self, state: dict[str, Any], *, epoch: int, step: int) -> Path:
        """Write a checkpoint, then remove the oldest ones and others of the same step.

        If it cannot be written, the others stay as they are.
        """
        buffer = io.BytesIO()
        torch.save(state, buffer)
        content = buffer.getbuffer()
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"epoch-{epoch:05d}-step-{step:06d}-{_digest(content)}.pt"
        write_atomically(path, lambda file: file.write(content))
        others = [other for other in self.paths() if _moment(other) != _moment(path)]
        kept = {path, *others[: self._keep - 1]}
        for old in set(self.paths()) - kept:
            old.unlink(missing_ok=True)
        return path

    def paths(self) -> list[Path]:
        """Return all checkpoints, the latest first."""
        found = [(name, path) for path in self.folder.glob("*.pt") if (name := NAME.fullmatch(path.name))]
        # By numbers, not names: the hundred thousandth epoch has one digit more.
        ordered = sorted(found, key=lambda each: (int(each[0][1]), int(each[0][2]), each[0][3]), reverse=True)
        return [path for _, path in ordered]

    @property
    def saved_epochs(self) -> int:
        """The number of whole epochs before the latest checkpoint; 0 if there is none."""
        named = next((NAME.fullmatch(path.name) for path in self.paths()), None)
        return int(named[1]) if named else 0

    def newest(self, complain: Callable[[str], None]) -> tuple[Path, dict[str, Any]] | None:
        """Return the latest checkpoint that is not corrupt, loaded on the CPU; None if there is none.

        Corrupt ones are renamed, so that they do not count any more, and reported to `complain`.
        """
        for path in self.paths():
            try:
                return path, load(path)
            except DamagedCheckpointError as error:
                aside = path.rename(path.with_name(f"{path.name}.damaged"))
                complain(f"{error}; it is now {aside.name} and not used")
        return None


def load(path: Path) -> dict[str, Any]:
    """Return the content of a checkpoint. Raise DamagedCheckpointError if its digest is not that of its name."""
    named = NAME.fullmatch(path.name)
    if named is None:
        raise ValueError(f"{path} is not named like a checkpoint (epoch-<n>-step-<n>-<digest>.pt)")
    content = path.read_bytes()
    found = _digest(content)
    if found != named[3]:
        raise DamagedCheckpointError(
            f"the checkpoint {path} is damaged (its {len(content):,} bytes have the digest {found}, "
            f"written was {named[3]})"
        )
    try:
        state: dict[str, Any] = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # torch has many ways to say no
        raise RefusedCheckpointError(
            f"{path} is whole but no checkpoint: only tensors and plain data are read, and no code is run. "
            f"Remove it if you do not know where it comes from ({str(error).splitlines()[0]})"
        ) from error
    return state


def _moment(path: Path) -> str:
    """Return the name of a checkpoint without the digest: its epoch and step."""
    return path.name.rpartition("-")[0]


def _digest(content: "bytes | memoryview[int]") -> str:
    return hashlib.sha256(content).hexdigest()[:16]
