"""`adaste export`: a trained network as a file for other programs."""

import argparse
from pathlib import Path

from adaste.cli import options

EXAMPLES = options.examples(
    "adaste export runs/digits-mlp-adaste-0123456789abcdef digits.safetensors     one bit per weight",
    "adaste export runs/digits-mlp-adaste-0123456789abcdef digits.onnx --network best",
    "adaste export runs/digits-mlp-adaste-0123456789abcdef digits.onnx --int8 --calibrate 500",
)

CALIBRATION = 200
"""Training images that decide on the ranges of 8-bit values, unless others are asked for."""


def add_to(commands: options.Commands) -> None:
    """Add the command."""
    parser = options.command(commands, "export", "write the network of a run as a one-bit file or as ONNX", EXAMPLES)
    options.add_network(parser)
    parser.add_argument("file", metavar="FILE", type=Path, help="model.safetensors (one bit per weight) or model.onnx")
    parser.add_argument("--int8", action="store_true", help="ONNX that computes in 8-bit integers")
    parser.add_argument(
        "--calibrate",
        type=options.at_least_one,
        metavar="N",
        help=f"with --int8: training images that decide on the ranges of values (default: {CALIBRATION})",
    )
    options.add_data(parser)
    parser.set_defaults(act=act)


def act(arguments: argparse.Namespace) -> int:
    """Export, and print how large the file is."""
    from adaste.data import load
    from adaste.runs.evaluate import network_of_run
    from adaste.runs.export import export

    if len(arguments.runs) > 1:
        raise ValueError(f"a file holds the network of one run, got {', '.join(map(str, arguments.runs))}: choose one")
    if arguments.calibrate and not arguments.int8:
        raise ValueError("--calibrate is for 8-bit integers: it needs --int8")
    exported = network_of_run(arguments.runs[0], arguments.network)
    dataset = load(exported.recipe.data, arguments.data)
    calibrate = (arguments.calibrate or CALIBRATION) if arguments.int8 else None
    written = export(exported, dataset, arguments.file, calibrate=calibrate)
    ratio = written.float_size / written.size
    print(f"{arguments.file}: {written.size:,} bytes, 1/{ratio:.1f} of {written.float_size:,} in float32")
    return 0
