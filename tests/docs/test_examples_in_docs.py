"""The code that README and the pages of docs print does what they say."""

import re
import warnings
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import adaste
from adaste.runs.folder import RunFolder

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def examples_of(page: str) -> list[str]:
    """All examples in Python on a page."""
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def python_of(page: str) -> str:
    """The first of them."""
    return examples_of(page)[0]


def test_the_example_of_readme_trains_a_network_with_biases_and_norms(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    pixels, digits = load_digits(return_X_y=True)
    images, labels = torch.tensor(pixels, dtype=torch.float32).view(-1, 1, 8, 8) / 8 - 1, torch.tensor(digits)
    model = nn.Sequential(*_layers(1, 16), *_layers(16, 32), *_layers(32, 32), nn.Flatten(), nn.Linear(32, 10))
    accuracies = []

    def evaluate(tested: nn.Module) -> None:
        assert len(tested[0].weight.abs().unique()) == 1
        accuracies.append((tested(images[:500]).argmax(1) == labels[:500]).double().mean())

    train = TensorDataset(images[500:], labels[500:])
    given = {"model": model, "loader": DataLoader(train, 64, shuffle=True), "epochs": 15}
    exec(python_of("README.md"), given | {"cross_entropy": cross_entropy, "evaluate": evaluate})
    assert accuracies[0] > 0.85
    assert adaste.load_packed("model.safetensors")(images[:9]).shape == (9, 10)


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
    assert RunFolder(tmp_path / "runs" / "mine").read_result() == names["result"]


@pytest.fixture
def one_process(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_the_page_on_own_loops_runs_from_top_to_bottom(tmp_path, monkeypatch, capsys, one_process) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    whole_program, *others = examples_of("docs/own-loop.md")
    names = {"__name__": "program"}
    exec(whole_program, names)
    printed = re.findall(r"epoch \d+: ([\d.]+) % with one bit per weight", capsys.readouterr().out)
    assert len(printed) == names["epochs"]
    assert float(printed[-1]) > 90
    for example in others:
        if "import lightning" not in example:
            exec(example, names)
        if "adaste.pack" in example:
            model, images = names["model"], names["images"]
            batches = images[names["train"]].split(names["batch"])
            with names["optimizer"].binarized(model, statistics_from=batches), torch.no_grad():
                logits, wanted = names["again"](images[:9]), model(images[:9])
            torch.testing.assert_close(logits, wanted, rtol=1e-4, atol=1e-4)
    assert list(names["first_and_last_real"].binary) == ["2.0.weight"]
    assert list(names["convolutions_only"].binary) == ["0.0.weight", "2.0.weight"]
    assert "again" in names


def test_the_page_on_own_loops_tests_networks_in_training_with_statistics_of_their_own(capsys) -> None:
    (example,) = (code for code in examples_of("docs/own-loop.md") if code.startswith("batches = "))
    model, images = nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2)), torch.randn(64, 4)
    optimizer = adaste.LatentOptimizer(
        adaste.binary_weights(model), base=partial(torch.optim.SGD, lr=0.1), estimator=adaste.MirrorDescent()
    )
    means = []
    names = {"model": model, "optimizer": optimizer, "images": images, "train": slice(None)}
    exec(example, names | {"batch": 64, "accuracy": lambda tested: means.append(tested[1].running_mean.clone())})
    with optimizer.binarized(), torch.no_grad():
        torch.testing.assert_close(means[0], model[0](images).mean(0))


def test_the_page_on_own_loops_goes_back_to_the_best_epoch() -> None:
    (example,) = (code for code in examples_of("docs/own-loop.md") if code.startswith("import copy"))
    assert example.count("    ...  # train for an epoch") == 1
    torch.manual_seed(0)
    model, images = nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2)), torch.randn(64, 4)
    optimizer = adaste.LatentOptimizer(
        adaste.binary_weights(model), base=partial(torch.optim.SGD, lr=1.0), estimator=adaste.MirrorDescent()
    )
    tested = []

    def train() -> None:
        (model(images) * torch.randn(64, 2)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    def accuracy(model: nn.Module) -> float:
        tested.append({name: value.clone() for name, value in model.state_dict().items()})
        return {1: 50.0, 2: 90.0, 3: 70.0}[len(tested)]

    names = {"model": model, "optimizer": optimizer, "batches": [images], "accuracy": accuracy, "train": train}
    exec(example.replace("...  # train", "train()  # train"), names)
    assert optimizer.steps == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with optimizer.binarized(model, statistics_from=[images]):
            for name, value in model.state_dict().items():
                assert torch.equal(value, tested[1][name]), name
    assert not torch.equal(tested[1]["0.bias"], tested[2]["0.bias"])


def test_the_example_for_lightning_validates_with_statistics_of_the_rounded_weights() -> None:
    pytest.importorskip("lightning")
    torch.manual_seed(0)
    (example,) = (code for code in examples_of("docs/own-loop.md") if "import lightning" in code)
    names = {"__name__": "program"}
    exec(python_of("docs/own-loop.md"), names)
    exec(example, names)
    assert names["trainer"].callback_metrics["accuracy"] > 0.9


def test_the_method_of_the_page_on_own_loops_keeps_latents_from_growing() -> None:
    names = {"adaste": adaste, "torch": torch, "partial": partial, "network": lambda: nn.Linear(3, 1), "__name__": "a"}
    (example,) = (code for code in examples_of("docs/own-loop.md") if "class Bounded" in code)
    exec(example, names)
    bounded = names["Bounded"](bound=0.5)
    latent, grad = torch.tensor([0.4, 0.6, 0.6, -0.6]), torch.tensor([-1.0, -1.0, 1.0, 1.0])
    assert bounded.gradient(grad, latent, bounded.weight(latent, latent)).tolist() == [-1.0, 0.0, 1.0, 0.0]


def test_the_example_of_the_page_on_deployment_runs_a_packed_network(tmp_path, monkeypatch) -> None:
    pytest.importorskip("adaste_runtime", reason="adaste-runtime is not installed")
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    model, images = nn.Sequential(*_layers(1, 4), nn.Flatten(), nn.Linear(64, 3)).eval(), torch.randn(5, 1, 8, 8)
    adaste.pack(model, images, path="digits.safetensors", allow_float=True)
    names = {"images": images.numpy()}
    exec(python_of("docs/deployment.md"), names)
    torch.testing.assert_close(torch.from_numpy(names["logits"]), model(images).detach(), rtol=1e-4, atol=1e-4)


def test_the_page_on_language_models_writes_files_for_both_engines(tmp_path, monkeypatch) -> None:
    gguf = pytest.importorskip("gguf")
    pytest.importorskip("adaste_runtime")
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    to_llama_cpp, to_the_runtime = examples_of("docs/language-models.md")
    names = {}
    exec(to_llama_cpp, names)
    kinds = {tensor.tensor_type.name for tensor in gguf.GGUFReader("model.gguf").tensors}
    assert kinds == {"Q1_0", "F16", "F32"}
    exec(to_the_runtime, names)
    with names["optimizer"].binarized(names["model"]), torch.no_grad():
        wanted = names["model"](input_ids=names["sequences"]).logits
    torch.testing.assert_close(torch.from_numpy(names["logits"]), wanted, rtol=1e-4, atol=1e-4)
