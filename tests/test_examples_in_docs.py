"""The code that README and docs/training.md print does what they say."""

import re
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy

from adaste.results import read_result

ROOT = Path(__file__).parents[1]


def python_of(page: str) -> str:
    """The first example in Python on a page."""
    found = re.search(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert found is not None
    return found.group(1)


def test_the_example_of_readme_trains_a_network_with_biases_and_norms() -> None:
    torch.manual_seed(0)
    pixels, digits = load_digits(return_X_y=True)
    images, labels = torch.tensor(pixels, dtype=torch.float32).view(-1, 1, 8, 8) / 8 - 1, torch.tensor(digits)
    model = nn.Sequential(*_layers(1, 16), *_layers(16, 32), *_layers(32, 32), nn.Flatten(), nn.Linear(32, 10))

    def evaluate(tested: nn.Module) -> None:
        assert set(tested[0].weight.flatten().tolist()) == {-1.0, 1.0}

    beginning, loop = re.split(r"(?=^loss\.backward)", python_of("README.md"), flags=re.MULTILINE)
    names = {"model": model, "evaluate": evaluate}
    exec(beginning, names)
    for _ in range(300):
        batch = torch.randint(500, len(images), (64,))
        names["loss"] = cross_entropy(model(images[batch]), labels[batch])
        exec(loop, names)
    accuracy = (model(images[:500]).argmax(1) == labels[:500]).double().mean()
    assert accuracy > 0.9


def _layers(inputs: int, outputs: int) -> list[nn.Module]:
    return [nn.Conv2d(inputs, outputs, 3, stride=2, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]


def test_the_example_of_the_training_page_makes_a_run(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    smaller = {"cifar10-resnet18-adaste": "digits-mlp-adaste", '"cifar10"': '"digits"', '"cuda"': '"cpu"', "=30": "=1"}
    code = python_of("docs/training.md")
    for printed, small in smaller.items():
        assert printed in code
        code = code.replace(printed, small)
    names = {}
    exec(code, names)
    assert names["chosen"].label_smoothing == 0.1
    assert read_result(tmp_path / "runs" / "mine") == names["result"]
