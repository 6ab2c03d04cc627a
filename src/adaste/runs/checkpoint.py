"""Checkpoints that are whole or not used: written atomically, named by their own digest, the last few kept.

A file is called `epoch-00012-step-000345-<digest>.pt`: the digest is that of its content, so a truncated or altered
file gives itself away. Files are what torch.save writes and are loaded with weights_only, which unpickles no code.
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
    """A checkpoint's content is not what was written."""


class RefusedCheckpointError(ValueError):
    """A file is whole, but holds something else than a checkpoint does."""


class Checkpoints:
    """The checkpoints of one run, in a folder of their own; the last `keep` stay."""

    def __init__(self, folder: Path, *, keep: int = 2) -> None:
        if keep < 1:
            raise ValueError(f"at least one checkpoint must be kept, got keep={keep}")
        self.folder, self._keep = folder, keep

    def save(self, state: dict[str, Any], *, epoch: int, step: int) -> Path:
        """Write a checkpoint, then drop the oldest ones and others of the same step.

        If it cannot be written, the others are as they were.
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
        """All checkpoints, the furthest first."""
        found = [(name, path) for path in self.folder.glob("*.pt") if (name := NAME.fullmatch(path.name))]
        # By numbers, not names: the hundred thousandth epoch has one digit more.
        ordered = sorted(found, key=lambda each: (int(each[0][1]), int(each[0][2]), each[0][3]), reverse=True)
        return [path for _, path in ordered]

    def newest(self, complain: Callable[[str], None]) -> tuple[Path, dict[str, Any]] | None:
        """The furthest checkpoint that is whole, loaded on the CPU.

        Those that are not are renamed, so that they do not count any more, and `complain` hears of them.
        """
        for path in self.paths():
            try:
                return path, load(path)
            except DamagedCheckpointError as error:
                aside = path.rename(path.with_name(f"{path.name}.damaged"))
                complain(f"{error}; it is now {aside.name} and not used")
        return None


def load(path: Path) -> dict[str, Any]:
    """The content of a checkpoint, checked against its name."""
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
    """The epoch and step of a checkpoint: its name without the digest."""
    return path.name.rpartition("-")[0]


def _digest(content: "bytes | memoryview[int]") -> str:
    return hashlib.sha256(content).hexdigest()[:16]
