"""save_packed and load_into: the state dict of any model, binary weights as bits."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import adaste
from support.packed_networks import binarized


class Anything(nn.Module):
    """What cannot be traced, or has tensors of all kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(40, 6)
        self.map = nn.Conv2d(3, 5, 3)
        self.turned = nn.ConvTranspose2d(4, 6, 2)
        self.recurrent = nn.LSTM(8, 8)
        self.table = nn.Embedding(11, 40)
        self.tied = nn.Linear(40, 11, bias=False)
        self.tied.weight = self.table.weight
        self.halves = nn.Parameter(torch.randn(6, 64).bfloat16())
        self.norm = nn.BatchNorm1d(6)
        self.register_buffer("numbers", torch.arange(7))


def made(seed: int = 0) -> Anything:
    torch.manual_seed(seed)
    model = Anything()
    with torch.no_grad():
        binarized(model, "channel", real=(model.tied,))
        model.turned.weight.copy_(torch.sign(model.turned.weight) * torch.rand(1, 6, 1, 1))
        sizes = torch.rand(6, 2, 1).bfloat16()
        model.halves.copy_((torch.sign(torch.randn(6, 2, 32)).bfloat16() * sizes).view(6, 64))
    return model


def test_every_number_comes_back_and_binary_weights_are_bits(tmp_path: Path) -> None:
    model, path = made(), tmp_path / "m.safetensors"
    names = adaste.save_packed(model, path)
    assert set(names) == {"layer.weight", "map.weight", "turned.weight", "halves"}
    other = made(1)
    adaste.load_into(other, path)
    for name, value in model.state_dict().items():
        found = other.state_dict()[name]
        assert found.dtype == value.dtype and torch.equal(found, value), name
    assert other.tied.weight is other.table.weight


def test_a_language_model_takes_a_thirtieth(tmp_path: Path) -> None:
    model = binarized(nn.Sequential(*(nn.Linear(512, 512, bias=False) for _ in range(4))), "channel")
    adaste.save_packed(model, tmp_path / "m.safetensors")
    assert 4 * 512 * 512 * 4 / (tmp_path / "m.safetensors").stat().st_size > 28


def test_the_library_of_the_outer_format_reads_the_tensors(tmp_path: Path) -> None:
    from safetensors import safe_open

    adaste.save_packed(made(), tmp_path / "m.safetensors")
    with safe_open(tmp_path / "m.safetensors", "pt") as file:
        facts = json.loads(file.metadata()["adaste"])
        entry = facts["packed"]["map.weight"]
        assert entry["shape"] == [5, 3, 3, 3] and file.get_tensor(entry["bits"]).shape == (5, 4)
    assert facts["shared"] == {"tied.weight": "table.weight"}


def test_real_models_and_other_endings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no weight of Linear is binary: .*binarized\(model\)"):
        adaste.save_packed(nn.Linear(20, 20), tmp_path / "m.safetensors")
    with pytest.raises(ValueError, match=r"must end in \.safetensors"):
        adaste.save_packed(made(), tmp_path / "m.pt")
    assert not list(tmp_path.iterdir())


def changed(content: bytes, change: Any) -> bytes:
    """The file with a changed description and a checksum that fits it."""
    import zlib

    end = 8 + struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:end])
    facts = json.loads(header["__metadata__"]["adaste"])
    change(facts)
    text = json.dumps(facts)
    header["__metadata__"] = {
        "adaste": text, "crc32": f"{zlib.crc32(content[end:], zlib.crc32(text.encode())):08x}"
    }  # fmt: skip
    said = json.dumps(header).encode()
    return struct.pack("<Q", len(said)) + said + content[end:]


WRONG: dict[str, tuple[Any, str]] = {
    "another version": (lambda f: f.update(version=2), "version must be 1"),
    "an unknown key": (lambda f: f.update(more=1), "the description must have"),
    "no object": (lambda f: f.update(packed=[]), "must be JSON objects"),
    "bits of nobody": (lambda f: f["packed"]["halves"].update(bits="nobody"), "bits of 'halves' must name a tensor"),
    "sizes of nobody": (lambda f: f["packed"]["halves"].update(sizes=3), "sizes of 'halves' must name a tensor"),
    "another shape": (lambda f: f["packed"]["halves"].update(shape=[6, 63]), "the bits of|the sizes of"),
    "a huge shape": (lambda f: f["packed"]["halves"].update(shape=[6, 2**60]), "the bits of 'halves' must be U8"),
    "an axis beyond": (lambda f: f["packed"]["halves"].update(axis=2), "one of its axes"),
    "no group": (lambda f: f["packed"]["halves"].update(group=0), "must have a shape"),
    "another group": (lambda f: f["packed"]["halves"].update(group=48), "the sizes of"),
    "an entry that is none": (lambda f: f["packed"].update(halves=3), "must have bits, sizes"),
    "shared with nobody": (lambda f: f["shared"].update(more="nobody"), "which is not there"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_file_that_says_something_wrong_is_refused_and_the_model_stays(name: str, tmp_path: Path) -> None:
    change, words = WRONG[name]
    path, model = tmp_path / "m.safetensors", made(1)
    adaste.save_packed(made(), path)
    path.write_bytes(changed(path.read_bytes(), change))
    before = {key: value.clone() for key, value in model.state_dict().items()}
    with pytest.raises(ValueError, match=words):
        adaste.load_into(model, path)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "a picture", "another safetensors"])
def test_a_damaged_file_is_refused(damage: str, tmp_path: Path) -> None:
    from safetensors.torch import save

    path = tmp_path / "m.safetensors"
    adaste.save_packed(made(), path)
    content = path.read_bytes()
    spoiled = {
        "cut": content[:-1],
        "flipped": content[:-1] + bytes([content[-1] ^ 1]),
        "empty": b"",
        "a picture": b"\x89PNG\r\n\x1a\n" + bytes(50),
        "another safetensors": save({"x": torch.ones(3)}),
    }
    path.write_bytes(spoiled[damage])
    with pytest.raises(ValueError, match=r"m\.safetensors: (the file is damaged|it is no )"):
        adaste.load_into(made(), path)


def test_a_packed_network_is_called_one_and_the_function_that_reads_it_is_named(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    adaste.pack(binarized(nn.Sequential(nn.Flatten(), nn.Linear(16, 6))), torch.ones(1, 1, 4, 4), path=path)
    with pytest.raises(ValueError) as caught:
        adaste.load_into(made(), path)
    assert str(caught.value) == (
        f"{path}: this is a packed network (adaste.pack), not the weights of a model: adaste.load_packed(path) reads it"
    )


def test_packed_weights_are_called_that_and_the_function_that_reads_them_is_named(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    for model in (made(), binarized(nn.Sequential(nn.Linear(40, 6)))):  # with tensors of other types, and without
        adaste.save_packed(model, path)
        with pytest.raises(ValueError) as caught:
            adaste.load_packed(path)
        assert str(caught.value) == (
            f"{path}: these are the packed weights of a model (adaste.save_packed), not a network: "
            "adaste.load_into(model, path) reads them, adaste.pack writes a network"
        )


def test_packed_weights_are_called_that_whoever_wrote_them(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    adaste.save_packed(made(), path)
    path.write_bytes(changed(path.read_bytes(), lambda facts: facts.update(format=facts.pop("format"))))
    with pytest.raises(ValueError, match="these are the packed weights of a model"):
        adaste.load_packed(path)


def test_a_file_that_is_not_there_is_missing_in_words(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nothing: there is no such file; adaste\.save_packed writes one$"):
        adaste.load_into(made(), tmp_path / "nothing")


def test_a_file_of_another_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    adaste.save_packed(binarized(nn.Sequential(nn.Linear(40, 6)), "channel"), path)
    with pytest.raises(ValueError, match=r"of another model: it lacks \['halves'.* and has \['0.bias', '0.weight'\]"):
        adaste.load_into(made(), path)
    with pytest.raises(ValueError, match=r"0.weight must be \(5, 40\), it is \(6, 40\)|0.bias must be \(5,\)"):
        adaste.load_into(nn.Sequential(nn.Linear(40, 5)), path)
