"""How fast one-bit forms of networks that people know run on a CPU, beside ONNX Runtime with real weights.

    python benchmarks/known_models.py                       # what the engines take on this machine, 1 and 2 threads
    python benchmarks/known_models.py --output FILE.json    # also as a record

Networks of transformers' configurations for 224x224 images, batch 1, with random weights: every weight of a
convolution or a linear layer is a sign times a scale per channel. The same graph goes to both engines. They take turns
in one process, as in benchmarks/inference.py.
"""

import argparse
import tempfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from inference import built, environment, latencies, write
from torch import nn

IMAGE = 224


def models() -> dict[str, Callable[[], nn.Module]]:
    """Names and constructors, with 1,000 classes."""
    import transformers as known

    return {
        "MobileNetV2": lambda: known.MobileNetV2ForImageClassification(
            known.MobileNetV2Config(tf_padding=False, num_labels=1000)
        ),
        "ConvNeXt-Atto": lambda: known.ConvNextForImageClassification(
            known.ConvNextConfig(hidden_sizes=[40, 80, 160, 320], depths=[2, 2, 6, 2], num_labels=1000)
        ),
        "ResNet-50": lambda: known.ResNetForImageClassification(known.ResNetConfig(num_labels=1000)),
        "DeiT-Tiny": lambda: known.DeiTForImageClassification(
            known.DeiTConfig(hidden_size=192, num_attention_heads=3, intermediate_size=768, num_labels=1000)
        ),
    }


def made_binary(model: nn.Module, images: torch.Tensor) -> nn.Module:
    """The model with weights of one bit and a scale per channel, and plausible BatchNorm statistics."""
    with torch.no_grad():
        for layer in model.modules():
            if isinstance(layer, nn.Linear | nn.Conv2d):
                size = layer.weight.abs().mean(dim=tuple(range(1, layer.weight.ndim)), keepdim=True)
                layer.weight.copy_(torch.where(layer.weight >= 0, size, -size))
        model.train()
        for _ in range(8):
            model(images)
    return model.eval()


def prepare(folder: Path, name: str, build: Callable[[], nn.Module]) -> dict[str, int]:
    """Write the network in the files of both engines, and return their bytes."""
    import adaste
    from adaste.packed.format import from_bytes
    from adaste.packed.onnx import to_onnx, with_real_weights

    torch.manual_seed(0)
    images = torch.randn(4, 3, IMAGE, IMAGE)
    content = adaste.pack(made_binary(build(), images), images[:1])
    real = to_onnx(with_real_weights(from_bytes(content)))
    (folder / f"{name}.safetensors").write_bytes(content)
    (folder / f"{name}.onnx").write_bytes(real)
    return {"adaste": len(content), "ONNX Runtime": len(real)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="write a record, as JSON")
    parser.add_argument("--rounds", type=int, default=24, help="of 4 runs each (24)")
    parser.add_argument("--threads", type=lambda text: [int(each) for each in text.split(",")], default=[1, 2])
    options = parser.parse_args()
    images = np.random.default_rng(0).standard_normal((1, 3, IMAGE, IMAGE), np.float32)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name, build in models().items():
            sizes = prepare(folder, name, build)
            for threads in options.threads:
                times = latencies(built([*sizes], folder, name, 1, threads), images, options.rounds, 1e9)
                rows.append({"model": name, "threads": threads, "bytes": sizes, "engines": times})
                print(name, threads, {engine: f"{t['min']:.2f} / {t['median']:.2f}" for engine, t in times.items()})
    if options.output is not None:
        conditions = environment(options.rounds)
        conditions["packages"]["transformers"] = metadata.version("transformers")
        write(options.output, {"environment": conditions, "image": IMAGE, "rows": rows})


if __name__ == "__main__":
    main()
