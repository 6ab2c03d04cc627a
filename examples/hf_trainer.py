"""Train the same Llama with Hugging Face's Trainer: it is evaluated with one-bit weights, and a resumed run is exact.

Needs `pip install accelerate`, as every Trainer does.

python examples/hf_trainer.py FOLDER            # goes on from the last checkpoint in the folder, if there is one
"""

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import torch
from language_model import CONTEXT, small_llama, source_of_python
from torch import Tensor, nn
from transformers import Trainer, TrainerState, TrainingArguments, set_seed
from transformers.trainer_utils import get_last_checkpoint

import adaste


class OneBitTrainer(Trainer):
    """A Trainer whose evaluations, also those in the middle of training, see the weights that are exported.

    Args:
        model: The network.
        optimizers: The LatentOptimizer that trains it, and a scheduler.
        settings: Those of the Trainer.
    """

    def __init__(self, model: nn.Module, *, optimizers: tuple[adaste.LatentOptimizer, Any], **settings: Any) -> None:
        super().__init__(model, optimizers=optimizers, **settings)
        self.latent_optimizer = optimizers[0]

    def evaluate(self, *arguments: Any, **settings: Any) -> dict[str, float]:
        """Evaluate with one-bit weights."""
        with self.latent_optimizer.binarized(self.model):
            return super().evaluate(*arguments, **settings)


def sequences(content: bytes) -> list[dict[str, Tensor]]:
    tokens = torch.frombuffer(bytearray(content), dtype=torch.uint8).long()
    return [{"input_ids": each, "labels": each} for each in tokens.split(CONTEXT) if len(each) == CONTEXT]


def trainer_for(folder: Path, content: bytes, steps: int, batch: int = 16, **settings: Any) -> OneBitTrainer:
    set_seed(0)
    model = small_llama()
    optimizer = adaste.LatentOptimizer(
        adaste.binary_weights(model),
        base=partial(torch.optim.AdamW, lr=3e-3, weight_decay=0.0),
        estimator=adaste.Scaled(adaste.StraightThrough(), adaste.GroupMean(128, half_precision=True)),
    )
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=steps, cycle_momentum=False)
    examples = sequences(content)
    return OneBitTrainer(
        model,
        optimizers=(optimizer, scheduler),
        args=TrainingArguments(
            str(folder),
            max_steps=steps,
            per_device_train_batch_size=batch,
            eval_strategy="steps",
            eval_steps=max(1, steps // 4),
            save_steps=max(1, steps // 4),
            report_to="none",
            disable_tqdm=True,
            dataloader_pin_memory=torch.cuda.is_available(),
            **settings,
        ),
        train_dataset=examples[:-100],
        eval_dataset=examples[-100:],
    )


def main(folder: Path, content: bytes, steps: int = 1000) -> float:
    last = get_last_checkpoint(str(folder)) if folder.exists() else None
    if last is not None:
        begun = TrainerState.load_from_json(f"{last}/trainer_state.json")
        if begun.max_steps != steps:
            raise SystemExit(f"{folder} has a run of {begun.max_steps} steps: name another folder, or that number")
        if begun.global_step == steps:
            raise SystemExit(f"the run in {folder} has made its {steps} steps; without {last} it repeats the last ones")
    trainer = trainer_for(folder, content, steps)
    trainer.train(resume_from_checkpoint=last)
    reached = trainer.evaluate()["eval_loss"]
    with trainer.latent_optimizer.binarized(trainer.model):
        adaste.export_gguf(trainer.model, None, folder / "model.gguf")
    print(f"{reached:.3f} nats per byte with one-bit weights, in {folder / 'model.gguf'}")
    return reached


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder of checkpoints")
    parser.add_argument("--steps", type=int, default=1000)
    arguments = parser.parse_args()
    main(arguments.folder, source_of_python(), arguments.steps)
