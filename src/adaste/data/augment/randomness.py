"""Random numbers of an epoch: generators that depend on (seed, epoch, purpose) and on nothing else."""

import hashlib

import torch
from torch import Tensor

from adaste._util.checks import require_count


def generator(seed: int, epoch: int, purpose: str) -> torch.Generator:
    """A generator on the host; other seeds, epochs or purposes give independent numbers."""
    require_count("seed", seed, least=0)
    require_count("epoch", epoch, least=0)
    # Hashed, because neighbouring seeds must not give related streams.
    digest = hashlib.sha256(f"{seed}/{epoch}/{purpose}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)


def steps_of_epoch(*, count: int, batch: int) -> int:
    """How many whole batches there are in so many images; an error where there is none."""
    require_count("batch", batch, least=1)
    require_count("count", count, least=1)
    if count < batch:
        raise ValueError(
            f"an epoch needs at least one whole batch (the last incomplete one is dropped), "
            f"got {count} images for batches of {batch}"
        )
    return count // batch


def order_of_epoch(*, seed: int, epoch: int, count: int, batch: int) -> Tensor:
    """The images of each step of an epoch, (steps, batch): a random permutation without its last incomplete batch.

    Every epoch drops other images.
    """
    steps = steps_of_epoch(count=count, batch=batch)
    return torch.randperm(count, generator=generator(seed, epoch, "order"))[: steps * batch].view(steps, batch)
