"""Train a transformer of one-bit weights with Hugging Face's Trainer: rows of digits as a sequence."""

import tempfile
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import Trainer, TrainingArguments

import adaste


class RowReader(nn.Module):
    """A transformer that reads the 8 rows of an image."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.embedding = nn.Linear(8, width)
        self.positions = nn.Parameter(0.02 * torch.randn(8, width))
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, pixels: Tensor, labels: Tensor) -> dict[str, Tensor]:
        hidden = self.encoder(self.embedding(pixels) + self.positions)
        logits = self.head(hidden.mean(dim=1))
        return {"loss": cross_entropy(logits, labels), "logits": logits}


def digits() -> tuple[list[dict[str, Tensor]], list[dict[str, Tensor]]]:
    """Examples for training and 500 for testing."""
    pixels, labels = load_digits(return_X_y=True)
    rows = torch.tensor(pixels, dtype=torch.float32).view(-1, 8, 8) / 8 - 1
    examples = [{"pixels": image, "labels": label} for image, label in zip(rows, torch.tensor(labels), strict=True)]
    return examples[500:], examples[:500]


def accuracy(predicted: Any) -> dict[str, float]:
    return {"accuracy": 100 * float((predicted.predictions.argmax(-1) == predicted.label_ids).mean())}


def main(epochs: int = 30, batch: int = 32) -> float:
    train, test = digits()
    model = RowReader()
    optimizer, scheduler = adaste.setup(model, steps=epochs * -(-len(train) // batch))
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model,
            TrainingArguments(
                folder,
                num_train_epochs=epochs,
                per_device_train_batch_size=batch,
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
                logging_strategy="no",
                dataloader_pin_memory=torch.cuda.is_available(),
            ),
            train_dataset=train,
            eval_dataset=test,
            compute_metrics=accuracy,
            optimizers=(optimizer, scheduler),
        )
        trainer.train()
        with optimizer.binarized(model):
            reached = trainer.evaluate()["eval_accuracy"]
    print(f"{reached:.1f} % with one bit per weight")
    return reached


if __name__ == "__main__":
    main()
