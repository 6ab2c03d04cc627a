"""`adaste-run model.safetensors picture.png ...`: what a packed network sees in pictures, or how fast it is."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adaste_runtime.bench import latencies, report
from adaste_runtime.network import Network, load
from adaste_runtime.pictures import read_images

BAR = 30
"""Characters of a probability of 1."""

TOP = 5
"""Classes to print where nobody says how many."""

WRONG = (ValueError, OSError, MemoryError)
"""What is said in a line: of files and options, not of errors in this program."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, run, print; 2 where something is wrong, if only with one of the images."""
    options = _parser().parse_intermixed_args(arguments)  # options may stand between the model and the pictures
    try:
        network = load(options.model, options.threads, options.int8)
        if options.bench:
            print(report(network, latencies(network, options.batch, options.seconds)))
            return 0
        if not options.images:
            raise ValueError("name at least one image, or --bench")
        return 0 if _show_all(network, options.images, _checked_top(options.top, network.outputs)) else 2
    except WRONG as error:
        _complain(error)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="adaste-run", description="Run a packed network with one-bit weights.")
    parser.add_argument("model", type=Path, help="a packed file (.safetensors)")
    parser.add_argument("images", type=Path, nargs="*", help="pictures, or .npy arrays as a network takes them")
    parser.add_argument("--threads", type=int, default=1, help="how many threads share the work (default 1)")
    parser.add_argument("--int8", action="store_true", help="8-bit activations")
    parser.add_argument(
        "--top", type=int, help=f"how many classes to print (default {TOP}, or all where they are fewer)"
    )
    parser.add_argument("--bench", action="store_true", help="print latencies instead")
    parser.add_argument("--batch", type=int, default=1, help="images per call for --bench (default 1)")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long --bench runs (default 2)")
    return parser


def _checked_top(top: int | None, classes: int) -> int:
    if top is None:
        return min(TOP, classes)
    if not 1 <= top <= classes:
        raise ValueError(f"--top must be 1 to {classes}, the number of classes, got {top}")
    return top


def _show_all(network: Network, paths: Sequence[Path], top: int) -> bool:
    """Whether all files could be used; of one that could not it is said why, and the others are shown."""
    complete = True
    for path in paths:
        try:
            found = _seen(network, path)
        except WRONG as error:
            _complain(error)
            complete = False
        else:  # not above: an output that is closed is nothing that is wrong with a file
            _show(network, path, found, top)
    return complete


def _seen(network: Network, path: Path) -> NDArray[np.float32]:
    images = read_images(path, network.input_shape)
    try:
        return network(images)
    except (ValueError, MemoryError) as error:  # which know of no file
        raise ValueError(f"{path}: {error}") from None


def _show(network: Network, path: Path, found: NDArray[np.float32], top: int) -> None:
    for place, logits in enumerate(found):
        print(printable(f"{path}" if len(found) == 1 else f"{path} [{place}]"))
        print(ranking(logits, network.classes, top))


def _complain(error: Exception) -> None:
    print(f"adaste-run: {printable(str(error))}", file=sys.stderr)


def printable(text: str) -> str:
    """The text with escapes for what a terminal would obey: names come from files, and these from strangers."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def ranking(logits: NDArray[Any], classes: list[str] | None, top: int) -> str:
    """The most probable classes, one a line, each with a bar."""
    powers = np.exp(logits.astype(np.float64) - logits.max())
    shares = powers / powers.sum()
    best = np.argsort(-shares, kind="stable")[:top]
    names = [printable(classes[i]) if classes else f"class {i}" for i in best]
    width = max(map(len, names))
    return "\n".join(
        f"  {name:<{width}}  {share:6.1%}  {'#' * round(BAR * share)}".rstrip()
        for name, share in zip(names, shares[best], strict=True)
    )
