"""`adaste study`: many runs, several at a time on this machine, or on a cluster."""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adaste.cli import options

if TYPE_CHECKING:
    import torch
    from rich.console import Console

    from adaste.recipes.recipe import Recipe
    from adaste.runs.study.processes import Processes
    from adaste.runs.study.ray_runner import Cluster
    from adaste.runs.study.schedule import TimeLimit
    from adaste.runs.study.study import Job, Runner, Status

EXAMPLES = options.examples(
    "adaste study digits-mlp-adaste digits-mlp-binaryconnect --seeds 0,1,2 --processes 2",
    "adaste study study.json --processes 8 --device cuda     (a JSON list of names, recipes, Runs and Cells)",
    "adaste study study.json --dry-run                       what is done, what is left, and how long that takes",
    "adaste study study.json --minutes 28                    only runs that end in time, the longest first",
    "adaste study study.json --ray head:6379 --gpu-share 0.25",
    "",
    "Finished runs and those that another process trains are skipped, interrupted ones resume.",
    "Ctrl-C saves all runs and stops; a second Ctrl-C kills them.",
)

COMPILERS = "TORCHINDUCTOR_COMPILE_THREADS"
"""Every process that compiles starts as many compilers as there are cores, unless it is told otherwise."""


def add_to(commands: options.Commands) -> None:
    """Add the command."""
    parser = options.command(commands, "study", "make many runs, several at a time", EXAMPLES)
    parser.add_argument(
        "recipes", nargs="+", metavar="FILE|NAME", help="names of recipes, or JSON files of recipes or of lists"
    )
    parser.add_argument(
        "--seeds", type=seeds, default=[], metavar="N,N,...", help="run every recipe once with each seed"
    )
    options.add_changes(parser)
    add_machines(parser)
    parser.set_defaults(act=act)


def seeds(text: str) -> list[int]:
    """Return the whole numbers in a list with commas."""
    parts = text.split(",")
    if not all(part.strip().isascii() and part.strip().isdigit() for part in parts):
        raise argparse.ArgumentTypeError(f"must be whole numbers with commas between them, as in 0,1,2; got {text!r}")
    found = [int(part) for part in parts]
    if len(set(found)) < len(found):
        raise argparse.ArgumentTypeError(f"must be different whole numbers, one for each run; got {text!r}")
    return found


def act(arguments: argparse.Namespace) -> int:
    """Make the runs and show their progress."""
    return perform(arguments, lambda: _jobs(arguments))


def _jobs(arguments: argparse.Namespace) -> list["Job"]:
    from adaste.cli.recipe_args import find_recipes
    from adaste.runs.study.study import Job, folder_of

    changes = options.changes(arguments)
    if arguments.seeds:
        listed = ",".join(map(str, arguments.seeds))
        options.require_agreement(arguments.set, "seed", listed, f"--seeds {listed} and --set")
    variants = [[*changes, f"seed={seed}"] for seed in arguments.seeds] or [changes]
    return [
        Job(name, recipe, folder_of(name, recipe, arguments.runs), estimate)
        for text in arguments.recipes
        for variant in variants
        for name, recipe, estimate in find_recipes(text, variant, arguments.data)
    ]


def add_machines(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where, and how many at a time, runs are made."""
    parser.add_argument(
        "--processes",
        type=options.at_least_one,
        metavar="N",
        help="runs at a time on this machine (default: as many as the estimates of a study file are for, or 1)",
    )
    parser.add_argument(
        "--minutes",
        type=options.above_zero,
        metavar="M",
        help="start only runs that should end within M minutes, the longest first; later ones save and stop",
    )
    parser.add_argument("--dry-run", action="store_true", help="list what is done, what is left and how long it takes")
    parser.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="run on the Ray cluster at HOST:PORT, ray://HOST:PORT or auto, not on this machine",
    )
    parser.add_argument(
        "--gpu-share",
        type=options.share,
        metavar="SHARE",
        help="share of a GPU for each run on a cluster: 0.25 for four per GPU, 0 for CPUs (default: 1 if there is one)",
    )
    options.add_data(parser)
    options.add_runs(parser)
    options.add_running(parser)
    options.add_quiet(parser)
    parser.add_argument("--no-mps", action="store_true", help="do not start NVIDIA's Multi-Process Service")


def perform(arguments: argparse.Namespace, choose: Callable[[], Sequence["Job"]]) -> int:
    """Make the chosen runs where the arguments say, show their progress, and return the exit code."""
    from rich.console import Console

    from adaste.cli.console import say, summary_of_rest
    from adaste.runs.study.ray_runner import connected
    from adaste.runs.study.schedule import TimeLimit

    started, console = time.monotonic(), Console(quiet=arguments.quiet)
    _check(arguments)
    if arguments.dry_run:
        listed = list({job.folder: job for job in choose()}.values())  # equal folders are one job, as in the study
        _list(listed, _at_once(listed, arguments))
        return 0
    with ExitStack() as stack:
        # Before all that takes seconds to import: a wrong address is refused soon.
        ray = None if arguments.ray is None else stack.enter_context(connected(arguments.ray))
        jobs = choose()
        # What is asked for is checked before images are decoded, which may take minutes.
        if ray is not None:
            cluster = _cluster(ray, arguments, console)
            _prepare_data(jobs, arguments.data, arguments.quiet)
            return _run(jobs, cluster, console)
        device, count = options.device_named(arguments.device), _at_once(jobs, arguments)
        # Here and not run by run. On a cluster the nodes have the data, and this machine need not.
        if missing := _prepare_data(jobs, arguments.data, arguments.quiet):
            raise ValueError("; ".join(missing))
        limit = arguments.minutes and TimeLimit(started + 60 * arguments.minutes, count)
        code = _run(jobs, stack.enter_context(_processes(device, count, arguments, console)), console, limit)
        if limit:
            say(console, summary_of_rest(jobs, count))
        return code


def _run(jobs: Sequence["Job"], runner: "Runner", console: "Console", limit: "TimeLimit | None" = None) -> int:
    from adaste.cli.console import Lines, line_of, say
    from adaste.cli.terminal import LiveTable
    from adaste.runs.study.study import State, Study

    study = Study(jobs, runner, limit)
    with LiveTable(console) if sys.stdout.isatty() and not console.quiet else Lines(console) as display:
        statuses = study.run(display)
    for line in over_seeds(statuses):
        say(console, line)
    failed = [status for status in statuses if status.state is State.FAILED]
    for status in failed if console.quiet else ():
        print(line_of(status), file=sys.stderr)
    if failed:
        return 1
    return 0 if study.stopped_by is None else 128 + study.stopped_by


def _at_once(jobs: Iterable["Job"], arguments: argparse.Namespace) -> int:
    """Return how many runs are made at a time: by default as many as all estimates are for that name a number."""
    estimated = [job.estimate.at_once for job in jobs if job.estimate and job.estimate.at_once]
    return int(arguments.processes or min(estimated, default=1))


def _list(jobs: Sequence["Job"], at_once: int) -> None:
    """Print a line per run, whether it is done or how long it still takes, and one on all."""
    from adaste.cli.console import duration, summary_of_rest
    from adaste.cli.lists import columns
    from adaste.runs.study.schedule import seconds_to_end

    needs = seconds_to_end(jobs, at_once)
    rows = []
    for job in jobs:
        seconds = needs[job.folder]
        left = "done" if job.finished else "no estimate" if seconds is None else duration(seconds)
        rows.append((job.name, f"{job.recipe.epochs} epochs", f"seed {job.recipe.seed}", left))
    columns(rows)
    print(summary_of_rest(jobs, at_once))


def over_seeds(statuses: Iterable["Status"]) -> list[str]:
    """Return a line per recipe with two or more finished runs: mean and deviation of the last test accuracy."""
    from adaste.paper.cells import OverSeeds
    from adaste.paper.report.texts import format_summary

    finished: dict[tuple[str, Recipe], list[float]] = {}
    for status in statuses:
        if status.result is not None:  # entries of a list may share a name: the recipe tells them apart
            key = status.job.name, status.job.recipe.unseeded
            finished.setdefault(key, []).append(status.result.last_accuracy)
    return [
        f"{name}, {len(accuracies)} seeds: {format_summary(OverSeeds.of(accuracies))} % after {recipe.epochs} epochs"
        for (name, recipe), accuracies in finished.items()
        if len(accuracies) > 1
    ]


def _check(arguments: argparse.Namespace) -> None:
    if arguments.ray is None and arguments.gpu_share is not None:
        raise ValueError("--gpu-share is for clusters (--ray ADDRESS): here, --processes says how many share the GPU")
    if arguments.ray is not None and arguments.processes is not None:
        raise ValueError("--processes is for one machine: on a cluster, --threads and --gpu-share say what a run takes")
    if arguments.ray is not None and arguments.minutes is not None:
        raise ValueError(
            "--minutes is for one machine: nobody knows how many runs a cluster makes at a time; leave out --ray, or "
            "stop the study with Ctrl-C, after which the same command goes on"
        )


@contextmanager
def _processes(
    device: "torch.device", count: int, arguments: argparse.Namespace, console: "Console"
) -> Iterator["Processes"]:
    """Yield the runner on this machine; several processes on one GPU share it by NVIDIA's MPS."""
    from adaste.cli.console import say
    from adaste.runs.study.processes import Processes, shared_gpu

    share = max(1, (os.cpu_count() or 1) // count)
    sharing = device.type == "cuda" and count > 1 and not arguments.no_mps
    threads = arguments.threads or (share if device.type == "cpu" else None)
    service: AbstractContextManager[dict[str, str]] = shared_gpu(partial(say, console)) if sharing else nullcontext({})
    with service as variables:
        yield Processes(
            count,
            options=_passed_on(arguments, arguments.device, arguments.data, threads),
            variables={COMPILERS: os.environ.get(COMPILERS, str(share)), **variables},
        )


def _cluster(ray: Any, arguments: argparse.Namespace, console: "Console") -> "Cluster":
    """Return the runner on a Ray cluster, whose nodes have the data in the same folder as this machine."""
    from adaste.cli.console import say
    from adaste.data import data_folder
    from adaste.runs.study.ray_runner import Cluster

    share = _gpu_share(arguments, has_gpus=ray.cluster_resources().get("GPU", 0) > 0)
    cpus = arguments.threads or 1
    device, data = "cuda" if share else "cpu", data_folder(arguments.data).absolute()
    cluster = Cluster(
        ray,
        gpu_share=share,
        cpus=cpus,
        options=_passed_on(arguments, device, data, cpus),
        variables={COMPILERS: str(cpus)},
    )
    if not cluster.can_run:
        needed = f"{cpus} CPUs and {share:g} of a GPU" if share else f"{cpus} CPUs"
        say(console, f"no node of the cluster has {needed}: the runs wait until one comes")
    return cluster


def _gpu_share(arguments: argparse.Namespace, has_gpus: bool) -> float:
    """Return the requested share; by default a whole GPU if the cluster has GPUs and the device is not the CPU."""
    if arguments.device not in ("auto", "cpu", "cuda"):
        raise ValueError(f"device must be auto, cpu or cuda on a cluster, where Ray counts, got {arguments.device!r}")
    usual = arguments.device == "cuda" or (arguments.device == "auto" and has_gpus)
    share = float(usual) if arguments.gpu_share is None else float(arguments.gpu_share)
    if arguments.device != "auto" and (share > 0) != (arguments.device == "cuda"):
        raise ValueError(f"runs on {arguments.device} cannot have a GPU share of {share:g}")
    return share


def _prepare_data(jobs: Sequence["Job"], folder: Path | None, quiet: bool) -> list[str]:
    """Decode images once, before several runs need them, and return what is wrong with them."""
    from adaste.data import DataError, load

    problems = []
    for name in {job.recipe.data: None for job in jobs if not job.finished}:
        try:
            load(name, folder, progress=sys.stderr.isatty() and not quiet)
        except DataError as error:
            problems.append(str(error))
    return problems


def _passed_on(arguments: argparse.Namespace, device: str, data: Path | None, threads: int | None) -> list[str]:
    """Return the options of `adaste train` that each run gets."""
    values = {
        "--data": data,
        "--device": device,
        "--engine": arguments.engine,
        "--save-every": arguments.save_every,
        "--keep": arguments.keep,
        "--threads": threads,
        "--teachers": arguments.teachers and arguments.teachers.absolute(),
    }
    flags = {"--deterministic": arguments.deterministic, "--tensorboard": arguments.tensorboard}
    named = [part for name, value in values.items() if value is not None for part in (name, str(value))]
    return [*named, *(name for name, given in flags.items() if given)]
