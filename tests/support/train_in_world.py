"""One process of runs, as torchrun starts it: `train_in_world.py FOLDER MARK NETWORK...`, one run after the other.

MARK names a file: where it does not exist, the process of rank 1 makes it in the middle of a run and kills itself.
"""

import dataclasses
import os
import signal
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from adaste.models import MLP, VGG
from adaste.recipes.distillation import Distillation
from adaste.recipes.recipe import Recipe
from adaste.runs.run import Options, run
from adaste.training.distributed import join_world, leave_world
from adaste.training.step import TrainingStep
from support.small_runs import CPU, small_data, small_recipe

PLAIN = MLP(widths=(16,), norm_hidden=False, logits_norm=False)


def recipes() -> dict[str, Recipe]:
    """By the name of the network: what processes train together as one would alone."""
    # More steps than lie between two agreements of processes to save.
    plain = small_recipe("full-precision", epochs=3, batch=4, network=PLAIN, evaluate_every=2)
    plain = dataclasses.replace(plain, base=dataclasses.replace(plain.base, lr=0.01))
    by_plain = Distillation(teacher=plain.digest, weight=0.5)
    return {
        "plain": plain,
        "taught": dataclasses.replace(plain, epochs=2, seed=1, distillation=by_plain),
        "norm": small_recipe("full-precision", epochs=2, network=VGG(stages=((4,),), hidden_widths=()), sync_norm=True),
        "soft": small_recipe("pmf", epochs=2, network=MLP(widths=(16,)), sync_norm=True),
    }


def die_once(mark: Path, rank: int) -> None:
    """Make the process of rank 1 kill itself at its 45th step, if none has before."""
    step, made = TrainingStep.__call__, []

    def mortal(self: TrainingStep) -> None:
        made.append(0)
        if rank == 1 and len(made) == 45 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        step(self)

    TrainingStep.__call__ = mortal  # type: ignore[method-assign]


def main(folder: Path, mark: Path, *networks: str) -> None:
    torch.set_num_threads(1)
    world, options = join_world(CPU), Options(save_every=0.0, engine="eager")
    die_once(mark, world.rank)
    for network in networks:
        run(recipes()[network], folder / network, small_data(test=53), device=CPU, world=world, options=options)
    leave_world()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
