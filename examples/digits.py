"""Nine ways to train one small network with one-bit weights, on real handwritten digits, in a minute or two.

Data: the 1,797 8x8 images that come with scikit-learn. All methods share the network, the initial weights, the order
of the batches, the number of epochs and the way they are tested: with the weights they would be exported with, after
the last epoch. They differ in one row of `METHODS`. What they reached is told and drawn by digits_results.py.
"""

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD, Adam, Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR

import adaste
from adaste._util.files import write_atomically
from adaste._util.serial import describe
from adaste.optim.summary import Summary, inspect_model

try:
    from digits_results import CLASSES, TEST_SIZE, Outcome, picture, table
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
except ImportError as error:
    sys.exit(f"The demonstration needs {error.name}, which is not installed: pip install '.[demo]' in a checkout")

BATCH = 64


@dataclass(frozen=True)
class Digits:
    """Images (n, 1, 8, 8) with values around zero, and labels."""

    images: Tensor
    labels: Tensor
    test_images: Tensor
    test_labels: Tensor


@dataclass(frozen=True)
class Plan:
    """What a schedule needs to know about the training it belongs to."""

    epochs: int
    steps_per_epoch: int
    train_size: int

    def rise(self, start: float, stop: float) -> adaste.Geometric:
        """Multiplied by the same factor after every epoch; the last epoch is trained at `stop`."""
        return adaste.Geometric(start=start, stop=stop, length=max(1, self.epochs - 1), every=self.steps_per_epoch)


@dataclass(frozen=True)
class Method:
    """One row of the comparison."""

    name: str
    colour: str
    estimator: Callable[[Plan], adaste.Estimator]
    base: "partial[Optimizer]"
    averaging: float = 0.0

    def settings(self, plan: Plan) -> dict[str, Any]:
        """All that distinguishes it, as plain data."""
        return {
            "estimator": describe(self.estimator(plan)),
            "base": {"kind": self.base.func.__name__, **self.base.keywords},
            "averaging": self.averaging,
        }


# Rates and annealing were chosen on 400 of the training images, held out for that, and never on the test images.
METHODS = (
    Method("full precision", "#000000", lambda plan: adaste.FullPrecision(), partial(SGD, lr=0.1, momentum=0.9)),
    Method("BinaryConnect", "#56b4e9", lambda plan: adaste.BinaryConnect(), partial(Adam, lr=0.01)),
    # A large rate: with a small one the pull outgrows the gradient and no sign changes after a few epochs.
    Method("ProxQuant", "#009e73", lambda plan: adaste.ProxQuant(strength=0.03), partial(SGD, lr=100.0, momentum=0.9)),
    Method("PMF", "#a6761d", lambda plan: adaste.PMF(beta=plan.rise(10.0, 1000.0)), partial(Adam, lr=0.01)),
    Method(
        "MD-tanh-s", "#e69f00", lambda plan: adaste.MirrorDescent(beta=plan.rise(10.0, 1000.0)), partial(Adam, lr=0.1)
    ),
    Method(
        "BayesBiNN", "#cc79a7", lambda plan: adaste.BayesBiNN(train_size=10.0 * plan.train_size), partial(SGD, lr=0.03)
    ),
    Method("straight-through", "#0072b2", lambda plan: adaste.StraightThrough(decay=1.0), partial(SGD, lr=0.1)),
    # AdaSTE's printed rule sees an averaged gradient, for under the noise of single batches every latent shrinks to
    # zero. The average takes the place of momentum.
    Method(
        "AdaSTE (printed rule)",
        "#f0746e",
        lambda plan: adaste.AdaSTE(mu=100.0),
        partial(SGD, lr=30.0),
        averaging=0.985,
    ),
    Method(
        "AdaSTE (printed rule), annealed",
        "#b2001d",
        lambda plan: adaste.AdaSTE(mu=plan.rise(1.0, 100.0)),
        partial(SGD, lr=10.0),
        averaging=0.985,
    ),
)


def digits() -> Digits:
    """The images, split once and for all with equal shares of every class."""
    images, labels = load_digits(return_X_y=True)
    train, test, train_labels, test_labels = train_test_split(
        images, labels, test_size=TEST_SIZE, stratify=labels, random_state=0
    )
    return Digits(_images(train), torch.tensor(train_labels), _images(test), torch.tensor(test_labels))


def _images(pixels: Any) -> Tensor:
    return torch.tensor(pixels, dtype=torch.float32).view(-1, 1, 8, 8) / 8 - 1


def network(seed: int) -> nn.Module:
    """Three convolutions and a linear layer, without biases: every parameter is a weight that becomes binary.

    As in the paper BatchNorm has no parameters and stands behind the logits, too.
    """
    torch.manual_seed(seed)
    return nn.Sequential(
        *_convolution(1, 16, stride=1),
        *_convolution(16, 32, stride=2),
        *_convolution(32, 32, stride=2),
        nn.Flatten(),
        nn.Linear(32 * 2 * 2, CLASSES, bias=False),
        nn.BatchNorm1d(CLASSES, affine=False),
    )


def _convolution(inputs: int, outputs: int, stride: int) -> list[nn.Module]:
    return [
        nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(outputs, affine=False),
        nn.ReLU(),
    ]


def train(
    method: Method, plan: Plan, data: Digits, seed: int, after_epoch: Callable[[], None]
) -> tuple[list[float], Summary]:
    """Train one network; its test accuracy after every epoch, and its size."""
    model = network(seed)
    optimizer = adaste.LatentOptimizer(
        adaste.binary_weights(model), base=method.base, estimator=method.estimator(plan), averaging=method.averaging
    )
    rate = CosineAnnealingLR(optimizer, T_max=plan.epochs)
    order = torch.Generator().manual_seed(seed)
    accuracy = []
    for _ in range(plan.epochs):
        for batch in torch.randperm(plan.train_size, generator=order).split(BATCH)[: plan.steps_per_epoch]:
            optimizer.zero_grad()
            cross_entropy(model(data.images[batch]), data.labels[batch]).backward()
            optimizer.step()
        rate.step()
        accuracy.append(evaluate(model, optimizer, data))
        after_epoch()
    return accuracy, inspect_model(model, optimizer)


@torch.no_grad()
def evaluate(model: nn.Module, optimizer: adaste.LatentOptimizer, data: Digits) -> float:
    """Test accuracy in percent with the weights of the export.

    BatchNorm's statistics are taken anew with these weights, from all training images at once: those of training belong
    to weights whose signs have flipped since, or that were still soft.
    """
    with optimizer.binarized(model, statistics_from=[data.images]):
        model.eval()
        correct = model(data.test_images).argmax(dim=1) == data.test_labels
        model.train()
    return 100 * correct.double().mean().item()


@contextmanager
def one_thread() -> Iterator[None]:
    """Tensors this small are computed faster by one thread than several can agree on who does what."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def compare(plan: Plan, data: Digits, seeds: range, progress: Progress) -> list[Outcome]:
    """Train with every method and every seed."""
    task = progress.add_task("", total=len(METHODS) * len(seeds) * plan.epochs)
    outcomes = []
    for method in METHODS:
        progress.update(task, description=method.name)
        runs = [train(method, plan, data, seed, after_epoch=lambda: progress.advance(task)) for seed in seeds]
        accuracy = tuple(tuple(epochs) for epochs, _ in runs)
        outcomes.append(
            Outcome(
                name=method.name,
                colour=method.colour,
                binary=method.estimator(plan).binary,
                settings=method.settings(plan),
                accuracy=accuracy,
                size=runs[-1][1],
            )
        )
    return outcomes


def record(outcomes: list[Outcome], plan: Plan, seeds: range, seconds: float) -> dict[str, Any]:
    """All that was measured and all that decides it, as plain data."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 1),
        "environment": {
            "torch": torch.__version__,
            "python": platform.python_version(),
            "machine": platform.machine(),
            "threads": torch.get_num_threads(),
        },
        "data": {"name": "scikit-learn digits", "train": plan.train_size, "test": TEST_SIZE},
        "training": {"epochs": plan.epochs, "batch": BATCH, "seeds": list(seeds), "learning rate": "cosine to zero"},
        "methods": [outcome.record() for outcome in outcomes],
    }


def arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train one small network on digits with every method and compare.")
    parser.add_argument("--epochs", type=_count, default=20, help="passes over the training images (%(default)s)")
    parser.add_argument("--seeds", type=_count, default=3, help="networks per method (%(default)s)")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the results (%(default)s)")
    chosen = parser.parse_args(given)
    try:
        chosen.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"argument --out: {chosen.out} is not a folder and cannot become one ({error.strerror})")
    return chosen


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a whole number of at least 1 is needed, got {text!r}")
    return int(text)


def main(given: list[str] | None = None) -> None:
    chosen = arguments(given)
    console = Console()
    begin = time.perf_counter()
    data = digits()
    plan = Plan(chosen.epochs, steps_per_epoch=len(data.labels) // BATCH, train_size=len(data.labels))
    seeds = range(chosen.seeds)
    columns = (TextColumn("{task.description:31}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with one_thread():
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
            outcomes = compare(plan, data, seeds, progress)
        seconds = time.perf_counter() - begin
        results = json.dumps(record(outcomes, plan, seeds, seconds), indent=1)
    figure = picture(outcomes)
    for ending in ("png", "svg"):
        write_atomically(chosen.out / f"digits.{ending}", partial(figure.savefig, format=ending, dpi=150))
    write_atomically(chosen.out / "digits.json", f"{results}\n".encode())
    console.print(table(outcomes))
    console.print(
        "AdaSTE here is the paper's printed rule on averaged gradients, not the released update of the paper's tables."
    )
    console.print(f"Trained {len(outcomes) * len(seeds)} networks for {plan.epochs} epochs in {seconds:.0f} s.")
    console.print(f"Picture: {chosen.out / 'digits.png'} (and .svg); numbers: {chosen.out / 'digits.json'}")


if __name__ == "__main__":
    main()
