"""Models that people know, tiny: each is packed, and the runtime computes what the model does.

Those of transformers are built from configurations; the others are modules of their shape, with all their operations.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import adaste
from adaste.packed.format import read
from support.packed_networks import Function, binarized

pytestmark = pytest.mark.slow

VIT = {
    "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64, "image_size": 16,
    "patch_size": 8, "num_labels": 5,
}  # fmt: skip
TEXT = {
    "vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64,
    "max_position_embeddings": 32, "num_labels": 3,
}  # fmt: skip
STAGES = {"hidden_sizes": [8, 16], "depths": [1, 1], "num_labels": 5}
AUDIO = {
    "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64, "conv_dim": [8, 8],
    "conv_stride": [5, 2], "conv_kernel": [10, 3], "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4,
    "num_labels": 4, "classifier_proj_size": 16,
}  # fmt: skip
PYRAMID = {
    "hidden_sizes": [8, 16, 24, 32], "depths": [1] * 4, "num_attention_heads": [1, 2, 3, 4], "num_labels": 5,
}  # fmt: skip
LANGUAGE = {**TEXT, "num_key_value_heads": 2}
MASKED = {**TEXT, "max_position_embeddings": 40, "pad_token_id": 1}
T5 = {"vocab_size": 50, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 4}
GPT2 = {"vocab_size": 50, "n_embd": 32, "n_layer": 1, "n_head": 4, "n_positions": 32}
DISTILBERT = {
    "vocab_size": 50, "dim": 32, "n_layers": 1, "n_heads": 4, "hidden_dim": 64, "max_position_embeddings": 32,
}  # fmt: skip
SERIES = {
    "num_input_channels": 3, "context_length": 32, "patch_length": 8, "patch_stride": 4, "d_model": 32,
    "num_attention_heads": 4, "num_hidden_layers": 1, "ffn_dim": 64, "prediction_length": 6,
}  # fmt: skip


def images(side: int = 32) -> Tensor:
    return torch.randn(2, 3, side, side)


def tokens() -> Tensor:
    return torch.randint(0, 50, (2, 9))


def padded() -> dict[str, Tensor]:
    """Texts of several lengths, filled up with token 1, and the mask that says so."""
    mask = (torch.arange(9) < torch.tensor([[9], [5], [2]])).long()
    return {"input_ids": torch.where(mask > 0, torch.randint(2, 50, (3, 9)), 1), "attention_mask": mask}


def series() -> Tensor:
    return torch.randn(2, 32, 3)


TRANSFORMERS: dict[str, tuple[dict[str, Any], Callable[[], Any]]] = {
    "ViTForImageClassification": (VIT, lambda: images(16)),
    "DeiTForImageClassification": (VIT, lambda: images(16)),
    "BeitForImageClassification": (VIT, lambda: images(16)),
    "Dinov2ForImageClassification": (VIT, lambda: images(16)),
    "ConvNextForImageClassification": ({**STAGES, "num_stages": 2}, images),
    "ConvNextV2ForImageClassification": ({**STAGES, "num_stages": 2}, images),
    "MobileNetV1ForImageClassification": ({"depth_multiplier": 0.25, "num_labels": 5}, lambda: images(33)),
    "MobileNetV2ForImageClassification": ({"depth_multiplier": 0.35, "num_labels": 5}, lambda: images(33)),
    "ResNetForImageClassification": ({**STAGES, "embedding_size": 8}, images),
    "RegNetForImageClassification": ({**STAGES, "embedding_size": 8, "groups_width": 8}, images),
    "SegformerForSemanticSegmentation": ({**PYRAMID, "decoder_hidden_size": 16}, images),
    "PvtForImageClassification": ({**PYRAMID, "image_size": 64}, lambda: images(64)),
    "SwinForImageClassification": (
        {
            "image_size": 16,
            "patch_size": 4,
            "embed_dim": 8,
            "depths": [2],
            "num_heads": [2],
            "window_size": 2,
            "num_labels": 5,
        },
        lambda: images(16),
    ),
    "BertForSequenceClassification": (TEXT, tokens),
    "DistilBertForSequenceClassification": (DISTILBERT, tokens),
    "ElectraForSequenceClassification": ({**TEXT, "embedding_size": 16}, tokens),
    "GPT2LMHeadModel": (GPT2, tokens),
    "LlamaForCausalLM": (LANGUAGE, tokens),
    "Qwen2ForCausalLM": (LANGUAGE, tokens),
    "T5EncoderModel": (T5, tokens),
    "CLIPVisionModel": (VIT, lambda: images(16)),
    "Wav2Vec2ForSequenceClassification": (AUDIO, lambda: torch.randn(2, 300)),
    "ASTForAudioClassification": (
        {**VIT, "max_length": 40, "num_mel_bins": 16, "frequency_stride": 8, "time_stride": 8},
        lambda: torch.randn(2, 40, 16),
    ),
    "LevitForImageClassification": (
        {
            "image_size": 64,
            "hidden_sizes": [16, 24, 32],
            "num_attention_heads": [1, 2, 2],
            "depths": [1, 1, 1],
            "key_dim": [8, 8, 8],
            "num_labels": 5,
        },
        lambda: images(64),
    ),
    "MobileViTForImageClassification": (
        {"image_size": 64, "hidden_sizes": [16, 24, 32], "neck_hidden_sizes": [8, 8, 16, 16, 24, 32, 32]},
        lambda: images(64),
    ),
    "MobileViTV2ForImageClassification": ({"image_size": 64, "width_multiplier": 0.25}, lambda: images(64)),
    "EfficientNetForImageClassification": (
        {"image_size": 32, "width_coefficient": 0.25, "depth_coefficient": 0.3, "hidden_dim": 320},
        lambda: images(33),
    ),
    "PoolFormerForImageClassification": ({"hidden_sizes": [8, 16, 24, 32], "depths": [1] * 4}, lambda: images(64)),
    "FocalNetForImageClassification": (
        {"image_size": 64, "embed_dim": 8, "depths": [1, 1], "focal_levels": [2, 2], "focal_windows": [3, 3]},
        lambda: images(64),
    ),
    "Swinv2ForImageClassification": (
        {"image_size": 16, "patch_size": 2, "embed_dim": 8, "depths": [2, 2], "num_heads": [2, 2], "window_size": 2},
        lambda: images(16),
    ),
    "SiglipVisionModel": (VIT, lambda: images(16)),
    "GLPNForDepthEstimation": ({**PYRAMID, "decoder_hidden_size": 16}, lambda: images(64)),
    "WavLMForSequenceClassification": (AUDIO, lambda: torch.randn(2, 300)),
    "WhisperForAudioClassification": (
        {
            "d_model": 32,
            "encoder_layers": 1,
            "encoder_attention_heads": 4,
            "encoder_ffn_dim": 64,
            "num_mel_bins": 16,
            "max_source_positions": 20,
            "num_labels": 4,
            "classifier_proj_size": 16,
        },
        lambda: torch.randn(2, 16, 40),
    ),
    "PatchTSTForClassification": ({**SERIES, "use_cls_token": True, "num_targets": 4}, series),
    "PatchTSTForPrediction": (SERIES, series),
    "PatchTSMixerForPrediction": ({**SERIES, "num_layers": 1}, series),
    "MistralForCausalLM": (LANGUAGE, tokens),
    "Phi3ForCausalLM": ({**LANGUAGE, "pad_token_id": 0}, tokens),
    "FalconForCausalLM": (LANGUAGE, tokens),
    "BloomForCausalLM": (LANGUAGE, tokens),
}

WITH_MASKS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(
        (
            *("BertForSequenceClassification", "BertForMaskedLM", "RobertaForSequenceClassification"),
            *(
                "XLMRobertaForSequenceClassification",
                "AlbertForSequenceClassification",
                "DebertaForSequenceClassification",
            ),
            *(
                "ElectraForSequenceClassification",
                "MPNetForSequenceClassification",
                "MobileBertForSequenceClassification",
            ),
            *("ModernBertForSequenceClassification", "RoFormerForSequenceClassification"),
        ),
        MASKED,
    ),
    "DistilBertForSequenceClassification": DISTILBERT,
    "T5EncoderModel": T5,
    "GPT2LMHeadModel": GPT2,
    "LlamaForCausalLM": LANGUAGE,
}


class Excitation(nn.Module):
    """Squeeze and excitation, as in MobileNetV3, EfficientNet and RegNetY."""

    def __init__(self, channels: int, gate: nn.Module) -> None:
        super().__init__()
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, 4, 1), nn.ReLU(), nn.Conv2d(4, channels, 1), gate
        )

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(x)


def head(channels: int) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 5)]


def mobile(activation: nn.Module, gate: nn.Module) -> nn.Module:
    """A block of MobileNetV3 or EfficientNet."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), activation,
        nn.Conv2d(8, 16, 1, bias=False), nn.BatchNorm2d(16), activation,
        nn.Conv2d(16, 16, 5, 1, 2, groups=16, bias=False), nn.BatchNorm2d(16), activation,
        Excitation(16, gate), nn.Conv2d(16, 8, 1, bias=False), nn.BatchNorm2d(8), nn.Dropout(), *head(8),
    )  # fmt: skip


class ShuffleBlock(nn.Module):
    """ShuffleNetV2: half of the channels is computed, then both halves are mixed."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(4, 4, 1), nn.ReLU(), nn.Conv2d(4, 4, 3, 1, 1, groups=4), nn.BatchNorm2d(4)
        )

    def forward(self, x: Tensor) -> Tensor:
        first, second = x.chunk(2, dim=1)
        y = torch.cat((first, self.layers(second)), dim=1)
        n, channels, height, width = y.shape
        return y.view(n, 2, channels // 2, height, width).transpose(1, 2).contiguous().view(n, -1, height, width)


class UNet(nn.Module):
    def __init__(self, transposed: bool) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.ReLU())
        self.low = nn.Sequential(
            nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.InstanceNorm2d(16), nn.LeakyReLU(0.2)
        )
        up = nn.ConvTranspose2d(16, 8, 2, 2) if transposed else nn.Conv2d(16, 8, 1)
        self.up = nn.Sequential(up, *([] if transposed else [nn.Upsample(scale_factor=2, mode="bilinear")]))
        self.end = nn.Conv2d(16, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        skip = self.down(x)
        return self.end(torch.cat([skip, self.up(self.low(skip))], 1))


class Detector(nn.Module):
    """A head as YOLO's: two sizes of maps, nearest upsampling, boxes as rows, several outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.SiLU())
        self.low = nn.Sequential(nn.Conv2d(8, 8, 3, 2, 1), nn.SiLU(), nn.MaxPool2d(5, 1, 2))
        self.boxes, self.classes = nn.Conv2d(16, 8, 1), nn.Conv2d(16, 3, 1)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        high = self.stem(x)
        both = torch.cat([F.interpolate(self.low(high), scale_factor=2), high], 1)
        rows = self.boxes(both).flatten(2).view(len(x), 4, 2, -1).softmax(2)
        first, last = rows[:, :, 0].split((2, 2), 1)
        return {"boxes": torch.cat([(first + last) / 2, last - first], 1), "classes": self.classes(both).sigmoid()}


class DeepLab(nn.Module):
    """Dilated convolutions, a pool of the whole image, and a resize to the size of the input."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.MaxPool2d(3, 2, ceil_mode=True))
        self.parts = nn.ModuleList(nn.Conv2d(8, 8, 3, padding=rate, dilation=rate, bias=False) for rate in (1, 2, 3))
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 8, 1), nn.PReLU(8))
        self.end = nn.Conv2d(32, 4, 1)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        y = self.stem(x)
        pooled = F.interpolate(self.pool(y), size=y.shape[2:], mode="bilinear", align_corners=False)
        found = self.end(torch.cat([*(part(y) for part in self.parts), pooled], 1))
        return {"out": F.interpolate(found, size=x.shape[2:], mode="bilinear", align_corners=False)}


class TorchEncoder(nn.Module):
    """torch's own transformer, as torchvision's ViT has its attention."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.token = nn.Conv2d(3, 16, 4, 4), nn.Parameter(torch.randn(1, 1, 16))
        layer = nn.TransformerEncoderLayer(16, 4, 32, activation="gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.end = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        rows = self.patches(x).flatten(2).transpose(1, 2)
        rows = torch.cat([self.token.expand(len(x), -1, -1), rows], 1)
        return self.end(self.layers(rows)[:, 0])


class Tabular(nn.Module):
    """Real and categorical columns, as FT-Transformer and TabNet have them."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, 8) for size in (5, 9))
        self.rows, self.hidden = nn.Linear(6, 16), nn.Linear(32, 24)
        self.norm, self.end = nn.BatchNorm1d(24), nn.Linear(12, 2)

    def forward(self, numbers: Tensor, categories: Tensor) -> Tensor:
        found = [table(column) for table, column in zip(self.tables, (categories, categories), strict=True)]
        parts = [torch.tanh(self.rows(numbers)), *(rows.mean(1) for rows in found)]
        return self.end(F.glu(self.norm(self.hidden(torch.cat(parts, 1))), 1))


class LargeKernel(nn.Module):
    """LayerNorm of channels written by hand, and a scale of each branch, as ConvNeXt's own code has them."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.depthwise = nn.Conv2d(3, 8, 4, 4), nn.Conv2d(8, 8, 7, padding=3, groups=8)
        self.norm, self.wide, self.narrow = nn.LayerNorm(8), nn.Linear(8, 32), nn.Linear(32, 8)
        self.gamma, self.end = nn.Parameter(torch.rand(8)), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        mean = x.mean(1, keepdim=True)
        x = (x - mean) / torch.sqrt((x - mean).pow(2).mean(1, keepdim=True) + 1e-6)
        y = self.narrow(F.gelu(self.wide(self.norm(self.depthwise(x).permute(0, 2, 3, 1)))))
        return self.end((x + (self.gamma * y).permute(0, 3, 1, 2)).mean((-2, -1)))


class Audio(nn.Module):
    """Convolutions of rows on a signal."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(1, 8, 9, 4, 4), nn.BatchNorm1d(8), nn.ELU(), nn.MaxPool1d(2),
            nn.Conv1d(8, 16, 3, padding=2, dilation=2, groups=2), nn.BatchNorm1d(16), nn.Mish(), nn.AvgPool1d(2),
            nn.ConvTranspose1d(16, 8, 4, 2, 1), nn.Hardtanh(), nn.AdaptiveAvgPool1d(3), nn.Flatten(), nn.Linear(24, 5),
        )  # fmt: skip

    def forward(self, signal: Tensor) -> Tensor:
        return self.layers(signal)


OWN: dict[str, tuple[Callable[[], nn.Module], Callable[[], Any]]] = {
    "MobileNetV3": (lambda: mobile(nn.Hardswish(), nn.Hardsigmoid()), images),
    "EfficientNet": (lambda: mobile(nn.SiLU(), nn.Sigmoid()), images),
    "RegNetY": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1),
            nn.ReLU(),
            nn.Conv2d(8, 8, 3, 1, 1, groups=2),
            Excitation(8, nn.Sigmoid()),
            *head(8),
        ),
        images,
    ),
    "ShuffleNetV2": (lambda: nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), ShuffleBlock(), ShuffleBlock(), *head(8)), images),
    "AlexNet of small images": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 5, 4, 2),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, ceil_mode=True),
            nn.AdaptiveAvgPool2d(6),
            nn.Flatten(),
            nn.Dropout(),
            nn.Linear(8 * 36, 5),
        ),
        images,
    ),
    "U-Net": (lambda: UNet(True), images),
    "U-Net with upsampling": (lambda: UNet(False), images),
    "YOLO's head": (Detector, images),
    "DeepLab": (DeepLab, images),
    "ViT of torch": (TorchEncoder, lambda: images(16)),
    "ConvNeXt by hand": (LargeKernel, images),
    "super-resolution": (
        lambda: nn.Sequential(
            nn.ReflectionPad2d(1),
            nn.Conv2d(3, 8, 3),
            nn.PReLU(),
            nn.Conv2d(8, 12, 3, padding=1),
            nn.PixelShuffle(2),
            nn.ConvTranspose2d(3, 3, 3, 2, 1, output_padding=1),
            nn.Tanh(),
        ),
        lambda: images(12),
    ),
    "an audio network": (Audio, lambda: torch.randn(2, 1, 200)),
    "a tabular network": (Tabular, lambda: (torch.randn(3, 6), torch.randint(0, 5, (3, 4)))),
    "a perceptron": (
        lambda: nn.Sequential(nn.Linear(7, 16), nn.SELU(), nn.LayerNorm(16), nn.Linear(16, 3), nn.Softmax(-1)),
        lambda: torch.randn(4, 7),
    ),
    "MLP-Mixer": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 8, 8),
            nn.Flatten(2),
            nn.LayerNorm(16),
            nn.Linear(16, 16),
            nn.GELU(approximate="tanh"),
            Function(lambda x: x.transpose(1, 2)),
            nn.RMSNorm(8),
            nn.Linear(8, 8),
            Function(lambda x: x.mean(1)),
            nn.Linear(8, 5),
        ),
        images,
    ),
}


@torch.no_grad()
def assert_runs(model: nn.Module, example: Any, path: Path) -> None:
    """The file of a model computes what the model does: in torch when it is packed, and here in the runtime."""
    runtime = pytest.importorskip("adaste_runtime", reason="the runtime is not built: make .venv/runtime")
    binarized(model, scale="channel")
    adaste.pack(model, example, path=path, allow_float=True)
    graph, net = read(path), runtime.load(path, threads=2)
    if isinstance(example, dict):
        found, output = net(**{name: part.numpy() for name, part in example.items()}), model(**example)
    else:
        parts = example if isinstance(example, tuple) else (example,)
        found, output = net(*(part.numpy() for part in parts)), model(*parts)
    named = found if isinstance(found, dict) else {graph.results[0].name: found}
    for name, value in named.items():
        wanted = (output if isinstance(output, Tensor) else output[name]).numpy()
        assert np.abs(value - wanted).max() <= 1e-4 * np.abs(wanted).max(), name


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_a_model_of_transformers_is_packed_and_run(name: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    options, example = TRANSFORMERS[name]
    kind = getattr(transformers, name)
    assert_runs(kind(kind.config_class(**options)).eval(), example(), tmp_path / "model.safetensors")


@pytest.mark.parametrize("name", WITH_MASKS)
def test_a_model_of_texts_is_packed_with_its_attention_mask(name: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    kind = getattr(transformers, name)
    assert_runs(kind(kind.config_class(**WITH_MASKS[name])).eval(), padded(), tmp_path / "model.safetensors")


@torch.no_grad()
@pytest.mark.parametrize("name", WITH_MASKS)
def test_onnx_takes_texts_of_any_length(name: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    onnxruntime = pytest.importorskip("onnxruntime")
    torch.manual_seed(0)
    kind, path, texts = getattr(transformers, name), tmp_path / "model.onnx", padded()
    model = kind(kind.config_class(**WITH_MASKS[name])).eval()
    free = {key: {1: "length"} for key in texts}
    adaste.pack(model, texts, path=path, free=free, allow_float=True)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert {port.name: port.shape for port in session.get_inputs()} == {key: ["n", "length"] for key in texts}
    for length in (9, 6, 3, 1):
        shorter = {key: value[:, :length] for key, value in texts.items()}
        wanted = model(**shorter)[0].numpy()
        found = session.run(None, {key: value.numpy() for key, value in shorter.items()})[0]
        assert np.abs(found - wanted).max() <= 1e-4 * max(1, np.abs(wanted).max())


@pytest.mark.parametrize("name", OWN)
def test_a_module_in_the_shape_of_a_known_one_is_packed_and_run(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    make, example = OWN[name]
    assert_runs(make().eval(), example(), tmp_path / "model.safetensors")
