"""The environment of a run: versions, machine, commit."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy
import torch

import adaste

PACKAGE = Path(adaste.__file__).parent


def environment(device: torch.device) -> dict[str, Any]:
    """Return what a reader of results needs to know of the machine and the software, as plain data."""
    return {
        "adaste": adaste.__version__,
        "commit": commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "system": platform.platform(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        **(gpu(device) if device.type == "cuda" else {"gpu": None}),
    }


def gpu(device: torch.device) -> dict[str, Any]:
    """Return the name of a GPU and the versions of its software."""
    return {
        "gpu": torch.cuda.get_device_name(device),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),  # type: ignore[no-untyped-call]
    }


def processor() -> str:
    """Return the name of the CPU."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def commit(source: Path = PACKAGE) -> str | None:
    """Return the commit of a folder's files, marked if they differ from it; None outside of a repository."""

    def git(*arguments: str) -> str | None:
        try:
            found = subprocess.run(
                ["git", "-C", str(source), *arguments], capture_output=True, text=True, timeout=10, check=True
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return found.stdout.strip()

    name = git("rev-parse", "HEAD")
    if name is None or git("ls-files", "--error-unmatch", ".") is None:
        return None  # no repository, or one that merely contains an installed package
    return f"{name} (changed)" if git("status", "--porcelain", "--", ".") else name
