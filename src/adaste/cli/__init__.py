"""The command `adaste`: parses, calls one function, prints. Nothing imports it.

Commands import what they need when they run: torch takes seconds, and `adaste --help` should not.
"""

import argparse
import gc
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import adaste
from adaste._util.files import printable
from adaste._util.packages import MissingPackageError
from adaste.cli import lists, networks, paper, study, train
from adaste.cli.options import examples

EXAMPLES = examples(
    "adaste list recipes                             the names of recipes",
    "adaste train digits-mlp-adaste                  a minute or less",
    "adaste train cifar10-resnet18-adaste --seed 1",
    "adaste evaluate runs/digits-mlp-adaste-...",
    "adaste export runs/digits-mlp-adaste-... digits.safetensors",
    "adaste COMMAND --help                           options and examples of a command",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 1 failed, 2 not understood, 128 + signal number if stopped.

    75, if another process trains in the folder of the run.
    """
    chosen, unknown = parser().parse_known_args(arguments)
    if unknown:
        chosen.command.error(f"unrecognized arguments: {' '.join(unknown)}")  # with the options that the command has
    # Importing torch's compiler makes millions of objects, none of them garbage: search among them less often than
    # after every 700 new ones.
    gc.set_threshold(200_000, 20, 100)
    if chosen.parent is not None:
        from adaste.runs.study.processes import die_with_parent

        die_with_parent(chosen.parent)
    try:
        with _brief_warnings():
            code: int = chosen.act(chosen)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (ValueError, OSError, RuntimeError, MissingPackageError) as error:
        if chosen.debug:
            raise
        print(f"{_speaker()}error: {printable(_in_words(error))}", file=sys.stderr)
        from adaste.runs.folder import TakenError

        return TakenError.exit_code if isinstance(error, TakenError) else 1


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands and their options."""
    whole = argparse.ArgumentParser(
        prog="adaste",
        description="Train neural networks whose weights are single bits.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    whole.add_argument("--parent", type=int, help=argparse.SUPPRESS)  # the study that starts this process
    whole.add_argument("--version", action="version", version=f"adaste {adaste.__version__}")
    commands = whole.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in (train, networks, study, paper, lists):
        module.add_to(commands)
    return whole


@contextmanager
def _brief_warnings() -> Iterator[None]:
    """Print a warning for users as one line, as errors are; no line of code is theirs here."""
    usual = warnings.formatwarning

    def brief(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> str:
        if category is UserWarning:
            return f"{_speaker()}warning: {printable(' '.join(str(message).split()))}\n"
        return usual(message, category, *where, **more)

    warnings.formatwarning = brief
    try:
        yield
    finally:
        warnings.formatwarning = usual


def _in_words(error: Exception) -> str:
    """Return the error in one line, without Python's numbers for errors of the system."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    expected = isinstance(error, ValueError | OSError) or type(error).__module__.startswith("adaste")
    lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return " ".join(lines) if expected or len(lines) == 1 else f"{lines[0]} (--debug shows more)"


def _speaker() -> str:
    rank = os.environ.get("RANK", "0")
    return "" if rank == "0" else f"rank {rank}: "
