"""torch.compile over the base optimizer's own step, against the update rules that are written out in `optim/fused.py`.

    python benchmarks/compiled_base.py                      # on the GPU if there is one, else on the CPU
    python benchmarks/compiled_base.py --output FILE.json

AdaSTE on the tensors of a ResNet-18, three ways in turns in one process:

- rules: `LatentOptimizer(compile=True)`;
- one: gradient, `base.step()` and weight in one compiled function;
- three: a compiled function for each of the three.

The last two do not look for gradients that are not finite, and leave out everything else that `LatentOptimizer` does.
On a GPU each way is also captured into a CUDA graph, and the replays are timed.
"""

import argparse
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from step import as_graph, named, parameters, seconds
from torch import nn
from torch.optim import SGD, AdamW

from adaste import AdaSTE, LatentOptimizer
from adaste._util.files import write_json
from adaste.runs.environment import environment

BASES: dict[str, Callable[[torch.device], Any]] = {
    "SGD with momentum": lambda device: partial(SGD, lr=0.1, momentum=0.9),
    "AdamW": lambda device: partial(AdamW, lr=1e-3, capturable=device.type == "cuda"),
}
Step = Callable[[], None]


def rules(base: Any, device: torch.device) -> Step:
    optimizer = LatentOptimizer(named(parameters(device)), base=base, estimator=AdaSTE(), compile=True)
    return optimizer.step


def parts(base: Any, device: torch.device) -> tuple[Step, Step, Step]:
    """The three parts of a step of AdaSTE, with gradients of the latents in memory of their own."""
    estimator = AdaSTE()
    weights = parameters(device)
    grads = [weight.grad for weight in weights if weight.grad is not None]
    latents = [nn.Parameter(weight.detach().clone()) for weight in weights]
    slopes = [torch.zeros_like(latent) for latent in latents]
    for latent, slope in zip(latents, slopes, strict=True):
        latent.grad = slope
    optimizer = base(latents, foreach=True)

    @torch.no_grad()
    def gradient() -> None:
        for slope, grad, latent, weight in zip(slopes, grads, latents, weights, strict=True):
            slope.copy_(estimator.gradient(grad, latent, weight))

    @torch.no_grad()
    def weight_() -> None:
        for latent, weight in zip(latents, weights, strict=True):
            weight.copy_(estimator.weight(latent, weight))

    optimizer.step()  # makes the state
    return gradient, optimizer.step, weight_


def one(base: Any, device: torch.device) -> Step:
    gradient, advance, weight = parts(base, device)

    @torch.compile
    def step() -> None:
        gradient()
        advance()
        weight()

    return step


def three(base: Any, device: torch.device) -> Step:
    compiled = [torch.compile(part) for part in parts(base, device)]

    def step() -> None:
        for part in compiled:
            part()

    return step


WAYS = {"rules": rules, "one": one, "three": three}


def measure(base: str, device: torch.device, rounds: int, repeats: int, graphs: bool) -> list[dict[str, Any]]:
    """The rows of one base: milliseconds of each way and their ratios to the rules, interleaved."""
    steps = {name: way(BASES[base](device), device) for name, way in WAYS.items()}
    for step in steps.values():
        seconds(step, device, 3)
    if graphs:
        steps = {name: as_graph(step) for name, step in steps.items()}
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            times[name].append(1e3 * seconds(step, device, repeats)[0])
    reference = times["rules"]
    return [
        {
            "base": base,
            "step": name,
            "cuda_graph": graphs,
            "ms_min": min(own),
            "ms_median": statistics.median(own),
            "ratio_min": min(own) / min(reference),
            "ratio_median": statistics.median(a / b for a, b in zip(own, reference, strict=True)),
        }
        for name, own in times.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=1, help="steps per timing (default 1)")
    parser.add_argument("--output", type=Path, help="write a record, as JSON")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    rows = []
    for base in BASES:
        for graphs in (False, True) if device.type == "cuda" else (False,):
            for row in measure(base, device, arguments.rounds, arguments.repeats, graphs):
                rows.append(row)
                print(
                    f"{row['base']:18} {'graph' if graphs else 'calls'} {row['step']:6} {row['ms_min']:8.3f} / "
                    f"{row['ms_median']:8.3f} ms   ratio {row['ratio_min']:.2f} / {row['ratio_median']:.2f}",
                    flush=True,
                )
    if arguments.output:
        record = {
            "environment": environment(device),
            "rounds": arguments.rounds,
            "repeats": arguments.repeats,
            "rows": rows,
        }
        write_json(arguments.output, record)


if __name__ == "__main__":
    main()
