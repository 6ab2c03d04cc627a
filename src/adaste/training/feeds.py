"""Which feed a split gets: resident where it fits, else streaming."""

import os
from pathlib import Path

import torch

from adaste.data import Split
from adaste.training.feed import Feed, Resident
from adaste.training.streaming import Streaming

SHARE_OF_MEMORY = 0.25
"""Images that take at most this share of the free memory stay on the device."""


def choose_feed(split: Split, device: torch.device, batch: int) -> Feed:
    """A feed of batches of this size: resident where the images take a small part of the device's free memory."""
    fits = split.images.nbytes <= SHARE_OF_MEMORY * free_memory(device)
    return Resident(split, device) if fits else Streaming(split, device, batch)


def free_memory(device: torch.device) -> int:
    """Bytes of memory the device could give now."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    # What the system keeps of files it has read counts as free: it gives that up when asked to.
    meminfo = Path("/proc/meminfo")
    lines = meminfo.read_text().splitlines() if meminfo.exists() else []
    available = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    return available[0] if available else os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
