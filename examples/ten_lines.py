"""The ten lines as a whole program: a network with one-bit weights on handwritten digits, tested and packed."""

from pathlib import Path
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import adaste


def digits(batch: int = 64) -> tuple["DataLoader[Any]", Tensor, Tensor]:
    """Batches for training, and 500 images and labels for testing."""
    pixels, labels = load_digits(return_X_y=True)
    images, targets = torch.tensor(pixels, dtype=torch.float32).view(-1, 1, 8, 8) / 8 - 1, torch.tensor(labels)
    loader = DataLoader(TensorDataset(images[500:], targets[500:]), batch, shuffle=True)
    return loader, images[:500], targets[:500]


def network() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(32 * 4, 10)),
    )


def main(path: Path = Path("digits.safetensors"), epochs: int = 20) -> float:
    loader, images, labels = digits()
    model = network()
    optimizer, scheduler = adaste.setup(model, steps=epochs * len(loader))
    for _ in range(epochs):
        for inputs, targets in loader:
            cross_entropy(model(inputs), targets).backward()
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
    model.eval()
    with optimizer.binarized(model, statistics_from=loader), torch.no_grad():
        accuracy = 100 * (model(images).argmax(1) == labels).double().mean().item()
        adaste.pack(model, images[:1], path=path, mean=[0.5], std=[0.5])  # pixels of 0 to 16 as -1 to 1
    print(f"{accuracy:.1f} % with one bit per weight, {path.stat().st_size:,} bytes in {path}")
    return accuracy


if __name__ == "__main__":
    main()
