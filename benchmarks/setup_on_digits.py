"""Measure what `adaste.setup` reaches on scikit-learn's digits, with seven small networks and any method.

    python benchmarks/setup_on_digits.py --output FILE.json              # compare, on held-out training images
    python benchmarks/setup_on_digits.py --test --output FILE.json       # the default method alone, on the test images

A comparison trains on 997 of the 1,297 training images and tests on the other 300. The 500 test images are read with
`--test` alone, after the choice, for a network that is trained on all 1,297.
"""

import argparse
import statistics
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import adaste
from adaste._util.files import write_json
from adaste.data import load
from adaste.estimators import AdaSTE, ChannelMean, FanIn, ReleasedSlope, StraightThrough, Unit
from adaste.recipes.methods import METHODS, Plan, Treatment
from adaste.recipes.setup import assemble
from adaste.runs.environment import environment

HELD_OUT, BATCH, EXAMPLES = 300, 64, 50_000
SCALES = {"FanIn()": FanIn(), "Unit()": Unit(), "ChannelMean()": ChannelMean()}
COMPARED = (
    *("full-precision", "binaryconnect", "pmf", "md-tanh-s", "proxquant", "adaste", "adaste-annealed"),
    *("adaste-printed", "straight-through", "bayesbinn", "bop"),
)


class RowReader(nn.Module):
    """A transformer that reads the 8 rows of an image."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.embedding = nn.Linear(8, width)
        self.positions = nn.Parameter(0.02 * torch.randn(8, width))
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.encoder(self.embedding(images.squeeze(1)) + self.positions).mean(dim=1))


def mlp(norm: type[nn.Module] = nn.Identity, widths: tuple[int, ...] = (64, 256, 256)) -> nn.Module:
    """Linear layers, with a norm behind each but the last."""
    hidden = [
        layer
        for inputs, outputs in pairwise(widths)
        for layer in (nn.Linear(inputs, outputs), norm(outputs), nn.ReLU())
    ]
    return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(widths[-1], 10))


def pooled(norm: type[nn.Module]) -> nn.Module:
    """Two convolutions, each with a norm and a pool, and a linear layer."""
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), norm(16), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), norm(32), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(32 * 4, 10)),
    )


def strided() -> nn.Module:
    """Three convolutions of stride 2 with BatchNorm, and a linear layer."""
    layers = [
        layer
        for inputs, outputs in ((1, 16), (16, 32), (32, 32))
        for layer in (nn.Conv2d(inputs, outputs, 3, stride=2, padding=1), nn.BatchNorm2d(outputs), nn.ReLU())
    ]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(32, 10))


NETWORKS = {
    "MLP": mlp,
    "MLP, BatchNorm": partial(mlp, nn.BatchNorm1d),
    "MLP, LayerNorm": partial(mlp, nn.LayerNorm),
    "CNN": partial(pooled, nn.Identity),
    "CNN, BatchNorm": partial(pooled, nn.BatchNorm2d),
    "strided CNN, BatchNorm": strided,
    "transformer": RowReader,
}
PLAIN = {
    "linear": partial(mlp, widths=(64,)),
    "MLP, one hidden layer": partial(mlp, widths=(64, 256)),
    "MLP, four hidden layers": partial(mlp, widths=(64, 256, 256, 256, 256)),
}
"""More networks without norms."""


@dataclass(frozen=True)
class Case:
    """One row of the comparison.

    Args:
        gate: AdaSTE's threshold if not its own: gradients above it hardly count.
        start: The size at which latents start if not the method's own.
        decay: Weight decay of the parameters that stay real.
    """

    method: str
    network: str
    epochs: int = 10
    scale: str = "FanIn()"
    gate: float | None = None
    start: float | None = None
    decay: float = 0.0

    def treatment(self, steps: int) -> Treatment:
        """The method's settings with the changes of this case."""
        treatment = METHODS[self.method].treat(Plan.of_steps(steps, EXAMPLES))
        estimator = treatment.estimator
        if self.gate is not None and isinstance(estimator, AdaSTE):
            estimator = replace(estimator, slope=ReleasedSlope(self.gate))
        if self.start is not None and isinstance(estimator, AdaSTE | StraightThrough):
            estimator = replace(estimator, start=self.start)
        return replace(treatment, estimator=estimator)


def comparison() -> Iterator[Case]:
    """Methods; the best two at other lengths; scales; AdaSTE's gate and the start of averages; decay; no norms."""
    for network in NETWORKS:
        yield from (Case(method, network) for method in COMPARED)
        yield from (Case(method, network, epochs) for method in ("binaryconnect", "pmf") for epochs in (4, 20))
        yield from (Case("binaryconnect", network, scale=scale) for scale in ("Unit()", "ChannelMean()"))
    for network in ("MLP", "CNN", "CNN, BatchNorm", "strided CNN, BatchNorm"):
        yield from (Case("adaste", network, gate=1e9, start=start) for start in (None, 0.1))
    yield from (Case("straight-through", network, start=0.1) for network in ("MLP", "CNN"))
    for network in ("MLP", "CNN, BatchNorm", "transformer"):
        yield from (Case("binaryconnect", network, decay=decay) for decay in (5e-4, 1e-2))
    for network in PLAIN:
        yield from (Case(method, network) for method in COMPARED if METHODS[method].needs_norms)


@dataclass(frozen=True)
class Images:
    """Images (n, 1, 8, 8) with values around zero, and labels."""

    images: Tensor
    labels: Tensor
    test_images: Tensor
    test_labels: Tensor


@cache
def digits(test: bool) -> Images:
    """The training images, and either those held out from them or the test images."""
    content = load("digits")
    images, labels = _tensors(content.train)
    if test:
        return Images(images, labels, *_tensors(content.test))
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    held, rest = order[:HELD_OUT], order[HELD_OUT:]
    return Images(images[rest], labels[rest], images[held], labels[held])


def _tensors(part: Any) -> tuple[Tensor, Tensor]:
    images = torch.tensor(part.images).float().view(-1, 1, 8, 8) / 127.5 - 1
    return images, torch.tensor(part.labels).long()


def trained(case: Case, data: Images, seed: int) -> float:
    """Accuracy in percent of the weights as exported, after the last epoch."""
    torch.manual_seed(seed)
    model = (NETWORKS | PLAIN)[case.network]()
    steps = case.epochs * len(data.labels.split(BATCH))
    optimizer, scheduler = assemble(model, case.treatment(steps), steps=steps, scale=SCALES[case.scale])
    for group in optimizer.param_groups[1:]:
        group["weight_decay"] = case.decay
    for _ in range(case.epochs):
        for chosen in torch.randperm(len(data.labels)).split(BATCH):
            cross_entropy(model(data.images[chosen]), data.labels[chosen]).backward()
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
    with optimizer.binarized(model, statistics_from=data.images.split(BATCH)), torch.no_grad():
        model.eval()
        return 100 * (model(data.test_images).argmax(1) == data.test_labels).double().mean().item()


def row(case: Case, *, seeds: int, test: bool) -> dict[str, Any]:
    """The accuracies of a case, seed by seed."""
    torch.set_num_threads(1)  # tensors this small are computed faster by one thread
    warnings.simplefilter("ignore")  # 64 steps are few, and some networks have no norms: both is what is measured
    return asdict(case) | {"accuracy": [round(trained(case, digits(test), seed), 3) for seed in range(seeds)]}


def first_step(method: str, network: str, seed: int) -> dict[str, float]:
    """Return the share of signs that one step changes, and the median update over the median latent before it."""
    torch.manual_seed(seed)
    model, data = NETWORKS[network](), digits(test=False)
    case = Case(method, network)
    optimizer, _ = assemble(model, case.treatment(160), steps=160)
    before = torch.cat([latent.flatten().clone() for _, latent in optimizer.latents()])
    chosen = torch.randperm(len(data.labels))[:BATCH]
    cross_entropy(model(data.images[chosen]), data.labels[chosen]).backward()
    gradients = torch.cat([weight.grad.flatten() for weight in optimizer.param_groups[0]["params"]])
    optimizer.step()
    after = torch.cat([latent.flatten() for _, latent in optimizer.latents()])
    moved = gradients != 0  # behind a ReLU that is dead for a whole batch nothing moves
    return {
        "flipped": ((before < 0) != (after < 0))[moved].double().mean().item(),
        "agree_with_first_gradient": ((after < 0) == (gradients > 0))[moved].double().mean().item(),
        "median_latent": before.abs().median().item(),
        "median_update": (after - before).abs()[moved].median().item(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="runs of each row (%(default)s)")
    parser.add_argument("--processes", type=int, default=1, help="runs at a time (%(default)s)")
    parser.add_argument("--test", action="store_true", help="the default method alone, on the test images")
    parser.add_argument("--output", type=Path, help="write a record, as JSON")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    began, rows, around = time.perf_counter(), [], environment(torch.device("cpu"))
    cases = list(comparison())
    if arguments.test:
        chosen = adaste.setup.__kwdefaults__["method"]
        cases = [Case(chosen, network, epochs) for epochs in (10, 20) for network in NETWORKS]
    with ProcessPoolExecutor(arguments.processes) as pool:
        for found in pool.map(partial(row, seeds=arguments.seeds, test=arguments.test), cases):
            rows.append(found)
            print(f"{statistics.mean(found['accuracy']):6.2f}", {k: v for k, v in found.items() if v}, flush=True)
    if arguments.output:
        data = digits(arguments.test)
        record = {
            "environment": around,
            "seconds": round(time.perf_counter() - began, 1),
            "data": {"name": "scikit-learn digits", "train": len(data.labels), "tested": len(data.test_labels)},
            "training": {
                "batch": BATCH,
                "seeds": arguments.seeds,
                "tested on": "test" if arguments.test else "held out",
            },
            "rows": rows,
        }
        if not arguments.test:
            record["first_steps"] = [
                {
                    "method": method,
                    "network": network,
                    "seeds": [first_step(method, network, seed) for seed in range(3)],
                }
                for method in COMPARED[1:]
                for network in NETWORKS
            ]
        write_json(arguments.output, record)


if __name__ == "__main__":
    main()
