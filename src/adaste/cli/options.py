"""Options that several commands have."""

import argparse
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from adaste.runs.evaluate import Exported

Commands = Any
"""The object of argparse that commands are added to; its type has no public name."""

ENGINES = ("auto", "eager", "compiled", "graph")
"""As in training.execution, which would take seconds to import."""


def command(commands: Commands, name: str, purpose: str, epilog: str) -> argparse.ArgumentParser:
    """Add a command with the options that all commands have."""
    made: argparse.ArgumentParser = commands.add_parser(
        name,
        help=purpose,
        description=purpose[0].upper() + purpose[1:] + ".",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("--debug", action="store_true", help="print the traceback of an error")
    made.set_defaults(command=made)
    return made


def examples(*lines: str) -> str:
    """Return the examples at the end of a help page."""
    return "\n".join(["examples:", *(f"  {line}" for line in lines)])


def add_changes(parser: argparse.ArgumentParser) -> None:
    """Add the options that change a recipe."""
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="change a field of the recipe, as in base.weight_decay=0.01 or estimator=StraightThrough; may be repeated",
    )
    parser.add_argument("--epochs", metavar="N", help="length of the run; the same as --set epochs=N")


def add_seed(parser: argparse.ArgumentParser) -> None:
    """Add the option for the seed of a single run."""
    parser.add_argument("--seed", metavar="N", help="seed of all random numbers; the same as --set seed=N")


def changes(arguments: argparse.Namespace) -> list[str]:
    """Return all changes of the recipe as assignments. Raise ValueError if an option contradicts --set."""
    given = {name: value for name in ("epochs", "seed") if (value := getattr(arguments, name, None)) is not None}
    for name, value in given.items():
        require_agreement(arguments.set, name, value, f"--{name} {value} and --set")
    return [*(f"{name}={value}" for name, value in given.items()), *arguments.set]


def require_agreement(settings: Iterable[str], key: str, value: object, both: str) -> None:
    """Raise ValueError if an assignment to `key` has another value; `both` names the two places in the message."""
    for setting in settings:
        name, _, text = (part.strip() for part in setting.partition("="))
        if name == key and text != str(value):
            raise ValueError(f"{both} {setting} contradict each other: leave out one of the two")


def add_network(parser: argparse.ArgumentParser) -> None:
    """Add the options that name trained networks."""
    parser.add_argument("runs", nargs="*", metavar="RUN", type=Path, help="folder of a run, or a network file from it")
    parser.add_argument(
        "--network",
        default="last",
        metavar="last|best|FILE",
        help="the last or best epoch, or a network file (default: last)",
    )


def networks(arguments: argparse.Namespace) -> list[Callable[[], "Exported"]]:
    """Return functions that read the networks that the arguments name."""
    from adaste.runs.evaluate import network_of_run, read_network
    from adaste.runs.folder import NETWORKS

    which, runs = arguments.network, arguments.runs
    if which in NETWORKS:
        if not runs:
            raise ValueError("no network was named: give the folder of a run, or --network FILE")
        return [partial(read_network, run) if run.is_file() else partial(network_of_run, run, which) for run in runs]
    if runs:
        raise ValueError(f"with runs, --network must be one of {', '.join(NETWORKS)}, got {which!r}")
    if not Path(which).is_file():
        raise ValueError(
            f"--network must be {', '.join(NETWORKS)} or a network file that a run has left, got {which!r}"
        )
    return [partial(read_network, Path(which))]


def add_data(parser: argparse.ArgumentParser) -> None:
    """Add the option for the data folder."""
    parser.add_argument("--data", metavar="DIR", type=Path, help="data folder (default: $ADASTE_DATA or ./data)")


def add_machine(parser: argparse.ArgumentParser) -> None:
    """Add the options for device, engine and threads."""
    parser.add_argument("--device", default="auto", metavar="NAME", help="auto, cpu, cuda or cuda:1 (default: auto)")
    parser.add_argument(
        "--engine", default="auto", choices=ENGINES, help="how steps are executed (default: the fastest)"
    )
    parser.add_argument(
        "--threads",
        type=at_least_one,
        metavar="N",
        help="number of CPU threads (default: all); it affects rounding",
    )


def add_running(parser: argparse.ArgumentParser) -> None:
    """Add the options of a run that change its numbers by rounding at most."""
    add_machine(parser)
    parser.add_argument(
        "--save-every",
        type=not_negative,
        default=60.0,
        metavar="SECONDS",
        help="time between checkpoints (default: 60)",
    )
    parser.add_argument(
        "--keep", type=at_least_one, default=2, metavar="N", help="number of checkpoints to keep (default: 2)"
    )
    parser.add_argument(
        "--deterministic",
        action="store_true",
        help="the same bits every time: slower algorithms on a GPU, one thread on a CPU",
    )
    parser.add_argument(
        "--teachers",
        metavar="DIR",
        type=Path,
        help="folder of the run of a recipe's teacher, or one that holds it (default: beside the run)",
    )
    parser.add_argument("--tensorboard", action="store_true", help="write TensorBoard's files into the run's folder")


def add_quiet(parser: argparse.ArgumentParser) -> None:
    """Add the option that prints errors only."""
    parser.add_argument("--quiet", action="store_true", help="print errors only")


def add_runs(parser: argparse.ArgumentParser) -> None:
    """Add the option for the folder of runs."""
    parser.add_argument("--runs", metavar="DIR", type=Path, default=Path("runs"), help="folder of runs (default: runs)")


def at_least_one(text: str) -> int:
    """Return a whole number of at least 1."""
    number = int(text) if text.isascii() and text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 on, got {text!r}")
    return number


def not_negative(text: str) -> float:
    """Return a number of at least 0."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number from 0 on, got {text!r}")
    return number


def above_zero(text: str) -> float:
    """Return a number above 0."""
    number = not_negative(text)
    if not number:
        raise argparse.ArgumentTypeError(f"must be a number above 0, got {text!r}")
    return number


def share(text: str) -> float:
    """Return a number from 0 to 1."""
    number = not_negative(text)
    if number > 1:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to 1, got {text!r}")
    return number


def device_named(name: str) -> "torch.device":
    """Return the device of that name. Raise ValueError if this machine does not have it."""
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kind, _, index = name.partition(":")
    if kind not in ("cpu", "cuda") or (index and not (index.isascii() and index.isdigit())):
        raise ValueError(f"device must be auto, cpu, cuda or cuda:NUMBER, got {name!r}")
    count = torch.cuda.device_count() if kind == "cuda" and torch.cuda.is_available() else 0
    if kind == "cuda" and int(index or 0) >= count:
        raise ValueError(f"device must be one of this machine, which has {count} CUDA devices, got {name!r}")
    return torch.device(name if kind == "cuda" else "cpu")


def use_threads(count: int | None) -> None:
    """Set torch's number of CPU threads, unless it is None."""
    import torch

    if count is not None:
        torch.set_num_threads(count)
