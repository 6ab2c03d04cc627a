"""What `adaste.setup` reaches on handwritten digits: two networks, weights of both sizes, any method.

    python benchmarks/setup_on_digits.py --methods adaste binaryconnect --output FILE.json

Data: the 1,797 8x8 images that come with scikit-learn, 500 of them for testing, always the same ones.
"""

import argparse
import json
import statistics
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim.swa_utils import update_bn

import adaste
from adaste._util.files import write_atomically
from adaste._util.serial import brief
from adaste.estimators import FanIn, Unit
from adaste.recipes.methods import METHODS
from adaste.runs.environment import environment

SCALES = {"fan-in": FanIn(), "unit": Unit()}


@dataclass(frozen=True)
class Digits:
    """Images (n, 1, 8, 8) with values around zero, and labels."""

    images: Tensor
    labels: Tensor
    test_images: Tensor
    test_labels: Tensor


def digits() -> Digits:
    pixels, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    images = (torch.tensor(pixels, dtype=torch.float32).view(-1, 1, 8, 8) / 8 - 1)[order]
    targets = torch.tensor(labels)[order]
    return Digits(images[500:], targets[500:], images[:500], targets[:500])


def with_norms() -> nn.Module:
    """Two convolutions with BatchNorm, and a linear layer."""
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(32 * 4, 10)),
    )


def without_norms() -> nn.Module:
    """Three linear layers."""
    return nn.Sequential(
        *(nn.Flatten(), nn.Linear(64, 256), nn.ReLU()), *(nn.Linear(256, 256), nn.ReLU()), nn.Linear(256, 10)
    )


NETWORKS = {"with norms": with_norms, "without norms": without_norms}


def accuracy_of(network: str, method: str, scale: str, data: Digits, *, epochs: int, batch: int, seed: int) -> float:
    """Test accuracy in percent of the weights as exported, after the last epoch."""
    torch.manual_seed(seed)
    model = NETWORKS[network]()
    steps = epochs * len(data.labels.split(batch))
    optimizer, scheduler = adaste.setup(model, steps=steps, method=method, scale=SCALES[scale])
    for _ in range(epochs):
        for chosen in torch.randperm(len(data.labels)).split(batch):
            cross_entropy(model(data.images[chosen]), data.labels[chosen]).backward()
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
    with optimizer.binarized(model), torch.no_grad():
        update_bn(data.images.split(batch), model)
        model.eval()
        return 100 * (model(data.test_images).argmax(1) == data.test_labels).double().mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2, help="runs of each row (%(default)s)")
    parser.add_argument("--epochs", type=int, default=10, help="(%(default)s)")
    parser.add_argument("--batch", type=int, default=64, help="(%(default)s)")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), metavar="METHOD")
    parser.add_argument("--scales", nargs="+", choices=SCALES, default=list(SCALES), metavar="SCALE")
    parser.add_argument("--output", type=Path, help="write a record, as JSON")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # tensors this small are computed faster by one thread
    data, rows, began = digits(), [], time.perf_counter()
    run = partial(accuracy_of, data=data, epochs=arguments.epochs, batch=arguments.batch)
    for method in arguments.methods:
        for network in NETWORKS:
            for scale in arguments.scales:
                reached = [run(network, method, scale, seed=seed) for seed in range(arguments.seeds)]
                row = {"method": method, "network": network, "scale": brief(SCALES[scale]), "accuracy": reached}
                rows.append(row)
                print(f"{method:25} {network:14} {scale:7} {statistics.mean(reached):6.2f}", reached, flush=True)
    if arguments.output:
        record = {
            "environment": environment(torch.device("cpu")),
            "seconds": round(time.perf_counter() - began, 1),
            "data": {"name": "scikit-learn digits", "train": len(data.labels), "test": len(data.test_labels)},
            "training": {"epochs": arguments.epochs, "batch": arguments.batch, "seeds": arguments.seeds},
            "rows": rows,
        }
        write_atomically(arguments.output, (json.dumps(record, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
