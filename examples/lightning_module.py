"""The ten lines in a LightningModule; needs `pip install lightning`."""

from typing import Any

import lightning
import torch
from ten_lines import digits, network
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import adaste


class Digits(lightning.LightningModule):
    """A network with one-bit weights."""

    def __init__(self) -> None:
        super().__init__()
        self.network = network()

    def configure_optimizers(self) -> dict[str, Any]:
        steps = int(self.trainer.estimated_stepping_batches)
        optimizer, scheduler = adaste.setup(self.network, steps=steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def training_step(self, batch: list[Tensor]) -> Tensor:
        inputs, targets = batch
        return cross_entropy(self.network(inputs), targets)

    def test_step(self, batch: list[Tensor]) -> None:
        inputs, targets = batch
        self.log("accuracy", 100 * (self.network(inputs).argmax(1) == targets).float().mean())


def main(epochs: int = 20) -> float:
    loader, images, labels = digits()
    module = Digits()
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = lightning.Trainer(max_epochs=epochs, enable_model_summary=False, **quiet)
    trainer.fit(module, loader)
    (optimizer,) = trainer.optimizers
    with optimizer.binarized(module.network, statistics_from=loader):
        (tested,) = trainer.test(module, DataLoader(TensorDataset(images, labels), 500), verbose=False)
    print(f"{tested['accuracy']:.1f} % with one bit per weight")
    return tested["accuracy"]


if __name__ == "__main__":
    torch.manual_seed(0)
    main()
