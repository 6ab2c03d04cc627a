"""`adaste-run model.safetensors picture.png ...`: what a packed network sees in pictures, is, or how fast it is."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adaste_runtime import __version__
from adaste_runtime.bench import latencies, report, summary
from adaste_runtime.network import Network, load, located
from adaste_runtime.pictures import read_images

BAR = 30
"""Characters of a probability of 1."""

TOP = 5
"""Classes to print where nobody says how many."""

NAMED = 10
"""Classes that a description names."""

WRONG = (ValueError, OSError, MemoryError, ImportError)
"""What is said in a line: of files, options and packages that are missing, not of errors in this program."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, run, print; 2 where something is wrong, if only with one of the images; 141 where nobody reads."""
    options = _parser().parse_intermixed_args(arguments)  # options may stand between the model and the pictures
    try:
        complete = _run(options)
        sys.stdout.flush()
        return 0 if complete else 2
    except BrokenPipeError:  # the reader of the output has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except WRONG as error:
        _complain(error)
        return 2


def _run(options: argparse.Namespace) -> bool:
    """Print what is asked for; whether all images could be used."""
    options.model = Path(located(options.model))
    network = load(options.model, _checked_threads(options.threads), options.int8)
    if options.describe or options.bench:
        if options.images:
            raise ValueError("--describe and --bench take no images: leave them out, or the option")
        print(_described(network, options) if options.describe else _timed(network, options))
        return True
    if not options.images:
        raise ValueError("name at least one image, or --bench or --describe")
    if not network._is_usual():
        takes, gives = ", ".join(network.input_shapes), ", ".join(network.output_shapes)
        raise ValueError(
            f"images need a network from images to one row of numbers each; this one takes {takes} and gives {gives}: "
            "call it from Python, with adaste_runtime.load"
        )
    show = _show_json if options.json else _show
    return _show_all(network, options.images, _checked_top(options.top, network.outputs), show)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="adaste-run", description="Run a packed network with one-bit weights.")
    parser.add_argument("--version", action="version", version=f"adaste-run {__version__}")
    parser.add_argument("model", help="a packed file (.safetensors), or zoo:NAME, a network of adaste-zoo")
    parser.add_argument("images", type=Path, nargs="*", help="pictures, or .npy arrays as a network takes them")
    parser.add_argument("--threads", type=int, help="how many threads share the work (default: one on each core)")
    parser.add_argument("--int8", action="store_true", help="8-bit activations")
    parser.add_argument(
        "--top", type=int, help=f"how many classes to print (default {TOP}, or all where they are fewer)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, one object a line")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--describe", action="store_true", help="print what the file holds instead")
    instead.add_argument("--bench", action="store_true", help="print latencies instead")
    parser.add_argument("--batch", type=int, default=1, help="images per call for --bench (default 1)")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long --bench runs (default 2)")
    return parser


def _timed(network: Network, options: argparse.Namespace) -> str:
    times = latencies(network, options.batch, options.seconds)
    return json.dumps(summary(network, times)) if options.json else report(network, times)


def _described(network: Network, options: argparse.Namespace) -> str:
    facts = {"file": str(options.model), "bytes": options.model.stat().st_size, **network.describe()}
    return json.dumps(facts) if options.json else description(facts)


def _checked_threads(threads: int | None) -> int | None:
    if threads is not None and not 1 <= threads <= 1024:
        raise ValueError(f"--threads must be 1 to 1024, or left out for one on each physical core, got {threads}")
    return threads


def _checked_top(top: int | None, classes: int) -> int:
    if top is None:
        return min(TOP, classes)
    if not 1 <= top <= classes:
        raise ValueError(f"--top must be 1 to {classes}, the number of classes, got {top}")
    return top


Show = Callable[[Network, Path, NDArray[np.float32], int], None]


def _show_all(network: Network, paths: Sequence[Path], top: int, show: Show) -> bool:
    """Whether all files could be used; of one that could not it is said why, and the others are shown."""
    complete = True
    for path in paths:
        try:
            found = _seen(network, path)
        except WRONG as error:
            _complain(error)
            complete = False
        else:  # not above: an output that is closed is nothing that is wrong with a file
            show(network, path, found, top)
    return complete


def _seen(network: Network, path: Path) -> NDArray[np.float32]:
    images = read_images(path, network.input_shape)
    try:
        found = network(images)
    except (ValueError, MemoryError) as error:  # which know of no file
        raise ValueError(f"{path}: {error}") from None
    assert not isinstance(found, dict)
    if not np.isfinite(found).all():
        raise ValueError(f"{path}: the outputs are not finite: its numbers are too large for the network")
    return found


def _show(network: Network, path: Path, found: NDArray[np.float32], top: int) -> None:
    for place, logits in enumerate(found):
        print(printable(f"{path}" if len(found) == 1 else f"{path} [{place}]"))
        print(ranking(logits, network.classes, top))


def _show_json(network: Network, path: Path, found: NDArray[np.float32], top: int) -> None:
    """A line of JSON for every image; JSON escapes what is not ASCII."""
    for place, logits in enumerate(found):
        shares, best = _best(logits, top)
        classes = [
            {
                "class": int(i),
                "name": network.classes[i] if network.classes else None,
                "share": float(shares[i]),
                "logit": float(logits[i]),
            }
            for i in best
        ]
        print(json.dumps({"file": str(path), "image": place, "top": classes}))


def _complain(error: Exception) -> None:
    print(f"adaste-run: {printable(str(error))}", file=sys.stderr)


def printable(text: str) -> str:
    """The text with escapes for what a terminal would obey: names come from files, and these from strangers."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def ranking(logits: NDArray[Any], classes: list[str] | None, top: int) -> str:
    """The most probable classes, one a line, each with a bar."""
    shares, best = _best(logits, top)
    names = [printable(classes[i]) if classes else f"class {i}" for i in best]
    width = max(map(len, names))
    return "\n".join(
        f"  {name:<{width}}  {share:6.1%}  {'#' * round(BAR * share)}".rstrip()
        for name, share in zip(names, shares[best], strict=True)
    )


def _best(logits: NDArray[Any], top: int) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """The probabilities of all classes, and the most probable ones."""
    powers = np.exp(logits.astype(np.float64) - logits.max())
    shares = powers / powers.sum()
    return shares, np.argsort(-shares, kind="stable")[:top]


def description(facts: dict[str, Any]) -> str:
    """What `Network.describe` says, with the file and its size, for people."""
    normalised = (
        f"(pixel / 255 - mean) / std, mean {_numbers(facts['mean'])}, std {_numbers(facts['std'])}"
        if facts["mean"]
        else "pixel / 255"
    )
    classes = facts["classes"] or []
    more = f" and {len(classes) - NAMED} more" if len(classes) > NAMED else ""
    names = f": {', '.join(map(printable, classes[:NAMED]))}{more}" if classes else ""
    rows = [("node", "output", "weights", "kernel"), *map(_row, facts["nodes"])]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        [
            printable(f"{facts['file']}: {facts['bytes']:,} bytes, written by {facts['producer']}"),
            *(
                [
                    f"  input    {_sides(facts['input_shape'])}, bytes become {normalised}",
                    f"  outputs  {facts['outputs']}{names}",
                ]
                if "input_shape" in facts
                else [
                    *(
                        f"  input    {printable(n)}: {p['type']} {_sides(p['shape'])}"
                        for n, p in facts["inputs"].items()
                    ),
                    *(f"  output   {printable(n)}: {_sides(shape)}" for n, shape in facts["results"].items()),
                ]
            ),
            f"  recipe   {'not said' if facts['recipe'] is None else printable(facts['recipe'])}",
            f"  weights  {facts['binary_weights']:,} of 1 bit, {facts['float_weights']:,} of 32 bits",
            *("  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows),
        ]
    )


def _row(node: dict[str, Any]) -> tuple[str, str, str, str]:
    weights = f"{node['weights']:,} of {node['bits']} bit{'s' if node['bits'] > 1 else ''}" if node["weights"] else ""
    return node["op"], _sides(node["shape"]), weights, node["kernel"] or ""


def _sides(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape)) or "1"


def _numbers(values: Sequence[float]) -> str:
    return " ".join(f"{value:g}" for value in values)
