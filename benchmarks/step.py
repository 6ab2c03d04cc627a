"""The cost of one optimizer step for the weights of a ResNet-18, against torch's fused SGD alone.

    python benchmarks/step.py                      # on the GPU if there is one, else on the CPU
    python benchmarks/step.py --output results/benchmarks/step-cpu.json

Every method runs over SGD with momentum, eager and compiled; its latents are float32, and the weights of the network
float32 or bfloat16 (which holds +-1 exactly). Times are interleaved with those of the peer, round by round, and
reported as ratios to it: of the minima, and the median over the rounds (on a CPU also of processor time). On a GPU the
compiled step is also captured into a CUDA graph, as the peer then is, and the replays are timed, so that launches from
Python do not count.

Bytes moved per parameter are counted, not timed: for eager code what each operator reads and writes; for
compiled code each tensor once for being read and once for being written, which is what the compiler makes of it (no
intermediate is stored), and the pass that looks for gradients that are not finite.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import adaste
from adaste import (
    PMF,
    AdaSTE,
    BayesBiNN,
    BinaryConnect,
    Bop,
    ExactSlope,
    FanIn,
    FullPrecision,
    Geometric,
    LatentOptimizer,
    MirrorDescent,
    ProxQuant,
    ReleasedSlope,
    Scaled,
    StraightThrough,
)
from adaste._util.files import write_json
from adaste.optim.fused import fused_step
from adaste.runs.environment import environment

SGD = partial(torch.optim.SGD, lr=0.1, momentum=0.9)
ANNEALED = Geometric(start=1.0, stop=100.0, length=1000)

ROWS: dict[str, tuple[adaste.Estimator, float]] = {
    "full precision": (FullPrecision(), 0.0),
    "BinaryConnect": (BinaryConnect(), 0.0),
    "straight-through, decay": (StraightThrough(decay=1.0), 0.0),
    "AdaSTE": (AdaSTE(), 0.0),
    "AdaSTE, averaged gradient": (AdaSTE(), 0.9997),
    "AdaSTE, scaled by fan-in": (Scaled(AdaSTE(), FanIn()), 0.0),
    "AdaSTE, annealed": (AdaSTE(mu=ANNEALED), 0.0),
    "AdaSTE, annealed, averaged gradient": (AdaSTE(mu=ANNEALED), 0.9997),
    "AdaSTE, exact slope": (AdaSTE(mu=ANNEALED, slope=ExactSlope()), 0.0),
    "AdaSTE, released slope": (AdaSTE(slope=ReleasedSlope()), 0.0),
    "ProxQuant": (ProxQuant(), 0.0),
    "PMF": (PMF(), 0.0),
    "MD-tanh-s": (MirrorDescent(), 0.0),
    "MD-tanh": (MirrorDescent(stable=False), 0.0),
    "BayesBiNN": (BayesBiNN(train_size=450_000.0), 0.0),
    "Bop": (Bop(), 0.0),
}


def resnet18_shapes() -> list[tuple[int, ...]]:
    """The 21 weights of the CIFAR ResNet-18 and its one bias: 11,164,362 parameters."""
    shapes: list[tuple[int, ...]] = [(64, 3, 3, 3)]
    width_before = 64
    for width in (64, 128, 256, 512):
        shapes += [(width, width_before, 3, 3), (width, width, 3, 3), (width, width, 3, 3), (width, width, 3, 3)]
        if width != width_before:
            shapes.append((width, width_before, 1, 1))
        width_before = width
    return [*shapes, (10, 512), (10,)]


def parameters(device: torch.device, dtype: torch.dtype = torch.float32) -> list[nn.Parameter]:
    """Random weights with random gradients."""
    torch.manual_seed(0)
    weights = [nn.Parameter(torch.randn(shape, device=device).to(dtype)) for shape in resnet18_shapes()]
    for weight in weights:
        weight.grad = 1e-3 * torch.randn_like(weight)
    return weights


def named(weights: list[nn.Parameter]) -> list[tuple[str, nn.Parameter]]:
    """The bias is to be binary, too; that it is meant is said by names."""
    return [(f"weight {place}", weight) for place, weight in enumerate(weights)]


MOVES_NOTHING = {torch.ops.aten.detach.default, torch.ops.aten.is_set_to.default}
"""Operators that look at no element, beside views."""


class ByteCounter(TorchDispatchMode):
    """Adds up what every operator reads and writes."""

    total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func not in MOVES_NOTHING and not func.is_view:
            read = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
            written = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
            self.total += sum(tensor.numel() * tensor.element_size() for tensor in (*read, *written))
        return result


def eager_bytes(step: Callable[[], None]) -> int:
    with ByteCounter() as counter:
        step()
    return counter.total


class FusedByteCounter(TorchDispatchMode):
    """Counts each stored tensor once for being read and once for being written, as one fused pass does."""

    def __init__(self, stored: list[Tensor]) -> None:
        super().__init__()
        self.stored = {tensor.untyped_storage().data_ptr(): tensor.numel() * tensor.element_size() for tensor in stored}
        self.read: set[int] = set()
        self.written: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        places = [leaf.untyped_storage().data_ptr() for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        if func is torch.ops.aten.copy_.default:
            self.written.add(places.pop(0))
        if not func.is_view:
            self.read |= set(places) - self.written
        return func(*args, **(kwargs or {}))

    @property
    def total(self) -> int:
        return sum(size for place, size in self.stored.items() for kind in (self.read, self.written) if place in kind)


def compiled_bytes(optimizer: LatentOptimizer) -> int:
    """What one fused pass moves, and the check of the gradients before it."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    grads = [weight.grad for weight in weights if weight.grad is not None]
    own = [tensor for weight in weights for tensor in optimizer.state[weight].values()]
    of_base = [tensor for state in optimizer.base.state.values() for tensor in state.values()]
    counter = FusedByteCounter([*weights, *grads, *own, *of_base])

    def counted(*arguments: Any) -> None:
        with counter:
            fused_step(*arguments)

    compiled, optimizer._compiled.fused = optimizer._compiled.fused, counted
    optimizer.step()
    optimizer._compiled.fused = compiled
    return counter.total + sum(grad.numel() * grad.element_size() for grad in grads)


def as_graph(step: Callable[[], None]) -> Callable[[], None]:
    """The step as one CUDA graph."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def seconds(step: Callable[[], None], device: torch.device, repeats: int) -> tuple[float, float]:
    """Time on the clock, and of the processor in this process: on a busy machine other processes take part of the
    first.
    """
    if device.type == "cuda":
        torch.cuda.synchronize()
    start, worked = time.perf_counter(), time.process_time()
    for _ in range(repeats):
        step()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / repeats, (time.process_time() - worked) / repeats


def compare(
    step: Callable[[], None], peer: Callable[[], None], device: torch.device, rounds: int, repeats: int
) -> dict[str, float]:
    """Times of a step and of its peer in turns, in milliseconds, and their ratio."""
    for warm in (step, peer):
        seconds(warm, device, 3)
    times = [(*seconds(peer, device, repeats), *seconds(step, device, repeats)) for _ in range(rounds)]
    theirs, their_work, ours, our_work = zip(*times, strict=True)

    def ratios(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
        each = [our / their for our, their in zip(ours, theirs, strict=True)]
        return min(ours) / min(theirs), statistics.median(each)

    shortest, middle = ratios(ours, theirs)
    row = {
        "ms_min": 1e3 * min(ours),
        "ms_median": 1e3 * statistics.median(ours),
        "sgd_ms_min": 1e3 * min(theirs),
        "ratio_min": shortest,
        "ratio_median": middle,
    }
    if device.type == "cpu":
        row["processor_ratio_min"], row["processor_ratio_median"] = ratios(our_work, their_work)
    return row


def measure(
    name: str, device: torch.device, dtype: torch.dtype, rounds: int, repeats: int, modes: Sequence[str]
) -> list[dict[str, Any]]:
    """The rows of one method: eager, compiled and, on a GPU, each of them as a CUDA graph where it can be one."""
    estimator, averaging = ROWS[name]
    peer = partial(torch.optim.SGD(parameters(device), lr=0.1, momentum=0.9, fused=True).step)
    peer()
    rows = []
    for compiled in [mode == "compiled" for mode in modes]:
        weights = parameters(device, dtype)
        count = sum(weight.numel() for weight in weights)
        optimizer = LatentOptimizer(
            named(weights), base=SGD, estimator=estimator, averaging=averaging, compile=compiled
        )
        optimizer.step()
        moved = compiled_bytes(optimizer) if compiled else eager_bytes(optimizer.step)
        row = {
            "method": name,
            "weights": str(dtype).removeprefix("torch."),
            "mode": "compiled" if compiled else "eager",
            "bytes_per_parameter": moved / count,
        }
        rows.append({**row, **compare(optimizer.step, peer, device, rounds, repeats)})
        if compiled and device.type == "cuda":
            graph_row = {**row, "mode": "compiled, CUDA graph"}
            rows.append({**graph_row, **compare(as_graph(optimizer.step), as_graph(peer), device, rounds, repeats)})
    return rows


def profile(name: str) -> None:
    """One compiled step on a GPU between the marks that a profiler waits for:

    ncu --profile-from-start off --metrics dram__bytes_read.sum,dram__bytes_write.sum python step.py --profile AdaSTE
    """
    estimator, averaging = ROWS[name]
    optimizer = LatentOptimizer(
        named(parameters(torch.device("cuda"))), base=SGD, estimator=estimator, averaging=averaging, compile=True
    )
    for _ in range(3):
        optimizer.step()
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    optimizer.step()
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument(
        "--dtype",
        nargs="+",
        choices=["float32", "bfloat16"],
        help="of the network's weights (default: both on a GPU, float32 on the CPU)",
    )
    parser.add_argument("--rounds", type=int, default=15, help="how often each is timed (default 15)")
    parser.add_argument("--repeats", type=int, default=5, help="steps per timing (default 5)")
    parser.add_argument("--modes", nargs="+", choices=["eager", "compiled"], default=["eager", "compiled"])
    parser.add_argument("--only", nargs="+", choices=list(ROWS), default=list(ROWS), metavar="METHOD")
    parser.add_argument("--output", type=Path, help="write a record, as JSON")
    parser.add_argument("--profile", choices=list(ROWS), metavar="METHOD", help="one compiled step, for a profiler")
    arguments = parser.parse_args()
    if arguments.profile:
        profile(arguments.profile)
        return
    device = torch.device(arguments.device)
    dtypes = arguments.dtype or (["float32", "bfloat16"] if device.type == "cuda" else ["float32"])
    surroundings = environment(device)
    hardware = surroundings["gpu"] or f"{surroundings['processor'] or 'CPU'}, {surroundings['threads']} threads"
    print(f"{hardware}, torch {torch.__version__}, ResNet-18 (11,164,362 parameters), base SGD with momentum")
    print("ratio to torch.optim.SGD(fused=True) alone on float32 weights, interleaved\n")
    columns = f"{'ms min':>8} {'median':>8} {'SGD alone':>10} {'ratio min':>10} {'median':>7} {'bytes/param':>12}"
    print(f"{'method':36} {'weights':9} {'mode':21} {columns}")
    rows = []
    for name, dtype in ((name, dtype) for name in arguments.only for dtype in dtypes):
        for row in measure(name, device, getattr(torch, dtype), arguments.rounds, arguments.repeats, arguments.modes):
            rows.append(row)
            print(
                f"{row['method']:36} {row['weights']:9} {row['mode']:21} {row['ms_min']:8.3f} {row['ms_median']:8.3f} "
                f"{row['sgd_ms_min']:10.3f} {row['ratio_min']:10.2f} {row['ratio_median']:7.2f} "
                f"{row['bytes_per_parameter']:12.1f}",
                flush=True,
            )
        if arguments.output:
            write(arguments.output, surroundings, arguments, rows)


def write(path: Path, surroundings: dict[str, Any], arguments: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    """The record so far, in one piece."""
    record = {"environment": surroundings, "rounds": arguments.rounds, "repeats": arguments.repeats, "rows": rows}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, record)


if __name__ == "__main__":
    main()
