"""The whole way of a network: trained, exported, run where there is no torch."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import adaste
from adaste.cli import main
from adaste.data import load

runtime = pytest.importorskip("adaste_runtime", reason="the runtime is not built: make .venv/runtime")

pytestmark = pytest.mark.slow

PROGRAM = """
import importlib.util, sys
import numpy
import adaste_runtime
assert importlib.util.find_spec("torch") is None and importlib.util.find_spec("adaste") is None
net = adaste_runtime.load(sys.argv[1])
numpy.save(sys.argv[3], net(numpy.load(sys.argv[2])))
print(net.classes)
"""


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of another environment, which has numpy and the runtime, and nothing else."""
    folder = tmp_path_factory.mktemp("elsewhere") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for package in (np, runtime):
        home = Path(package.__file__).parent
        for part in (home, home.with_name(f"{home.name}.libs")):
            if part.exists():
                (packages / part.name).symlink_to(part)
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The one-bit file of a network that was trained for a moment."""
    folder = tmp_path_factory.mktemp("trained")
    arguments = [
        "--epochs",
        "2",
        "--threads",
        "1",
        "--device",
        "cpu",
        "--engine",
        "eager",
        "--folder",
        str(folder / "run"),
    ]
    assert main(["train", "digits-vgg-small-adaste", *arguments]) == 0
    assert main(["export", str(folder / "run"), str(folder / "digits.safetensors")]) == 0
    return folder / "digits.safetensors"


def test_a_trained_network_gives_the_same_answers_without_torch(
    exported: Path, elsewhere: Path, tmp_path: Path
) -> None:
    dataset = load("digits", None)
    images = dataset.test.images[:100]
    np.save(tmp_path / "images.npy", images)
    command = [elsewhere, "-I", "-c", PROGRAM, exported, tmp_path / "images.npy", tmp_path / "logits.npy"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(list(dataset.classes))
    normalised = (images.astype(np.float32) / 255 - np.float32(dataset.mean)) / np.float32(dataset.std)
    with torch.inference_mode():
        wanted = adaste.load_packed(exported)(torch.from_numpy(normalised.transpose(0, 3, 1, 2).copy())).numpy()
    found = np.load(tmp_path / "logits.npy")
    assert np.abs(found - wanted).max() <= 1e-4 * np.abs(wanted).max()
    assert (found.argmax(1) == wanted.argmax(1)).all()


@pytest.mark.parametrize("damage", [b"", b"not a network"])
def test_the_runtime_says_what_is_wrong_with_a_file(damage: bytes, tmp_path: Path) -> None:
    path = tmp_path / "damaged.safetensors"
    path.write_bytes(damage)
    with pytest.raises(ValueError, match=r"damaged\.safetensors"):
        runtime.load(path)
