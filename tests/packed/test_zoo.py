"""The zoo: each network is the one that its card, its run and the record of its check describe; what goes wrong."""

import dataclasses
import json
import shutil
import sys
from pathlib import Path

import adaste_zoo
import pytest
import torch

import adaste
from adaste.cli import main
from adaste.data import load
from adaste.packed.format import read
from adaste.paper.index import read_run
from support.pages import ROOT

DIGITS = "digits-vgg-small"
every_card = pytest.mark.parametrize("card", adaste_zoo.cards(), ids=lambda card: card.name)


@pytest.fixture
def own_zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of one network with its card, which tests may damage."""
    for ending in ("json", "safetensors"):
        shutil.copy(adaste_zoo.NETWORKS / f"{DIGITS}.{ending}", tmp_path)
    monkeypatch.setattr(adaste_zoo, "NETWORKS", tmp_path)
    return tmp_path


def test_every_network_has_a_card_and_every_card_a_network() -> None:
    names = {card.name for card in adaste_zoo.cards()}
    assert names == {file.stem for file in adaste_zoo.NETWORKS.glob("*.safetensors")}
    assert DIGITS in names


@every_card
def test_a_card_describes_its_file_and_its_runs(card: adaste_zoo.Card) -> None:
    path = adaste_zoo.path(card.name)
    graph = read(path)
    assert (graph.recipe, graph.classes, path.stat().st_size) == (card.recipe, card.classes, card.bytes)
    own = next((ROOT / "results" / "runs").glob(f"*-{card.recipe}"))
    run = read_run(own)
    seeds = [read_run(folder) for folder in own.parent.glob(f"{own.name.rpartition('-')[0]}-*")]
    alike = sorted(
        (each for each in seeds if each.recipe.unseeded == run.recipe.unseeded), key=lambda run: run.recipe.seed
    )
    assert card.recorded == run.result.last_accuracy
    assert card.seeds == tuple(each.result.last_accuracy for each in alike)
    assert run.recipe == alike[0].recipe, "the file is that of the first seed, whichever is best"


def test_the_record_of_the_check_is_that_of_the_cards() -> None:
    rows = json.loads((ROOT / "results" / "benchmarks" / "zoo.json").read_text())["rows"]
    for row, card in zip(rows, adaste_zoo.cards(), strict=True):
        plain = json.loads(json.dumps(dataclasses.asdict(card)))
        assert {name: row[name] for name in plain} == plain
        assert abs(card.float32 - card.recorded) <= 0.1


def test_a_network_of_the_zoo_has_the_accuracy_of_its_card() -> None:
    network, test = adaste.load_packed(f"zoo:{DIGITS}"), load("digits", None).test
    pixels = torch.tensor(test.images).permute(0, 3, 1, 2) / 255
    mean, std = (torch.tensor(each).view(1, -1, 1, 1) for each in (network.graph.mean, network.graph.std))
    with torch.no_grad():
        right = network((pixels - mean) / std).argmax(1) == torch.tensor(test.labels)
    (card,) = (card for card in adaste_zoo.cards() if card.name == DIGITS)
    assert 100 * right.double().mean().item() == pytest.approx(card.float32)
    assert card.images == len(test)


def test_an_unknown_name_is_refused_with_those_that_there_are(own_zoo: Path) -> None:
    with pytest.raises(ValueError, match=f"no network 'cifar11'; it has {DIGITS}"):
        adaste.load_packed("zoo:cifar11")
    for file in own_zoo.iterdir():
        file.unlink()
    with pytest.raises(ValueError, match="it has none"):
        adaste_zoo.path(DIGITS)


@pytest.mark.parametrize("damage", [None, b"", b"another file"])
def test_a_file_that_is_not_the_one_of_its_card_is_refused(own_zoo: Path, damage: bytes | None) -> None:
    file = own_zoo / f"{DIGITS}.safetensors"
    file.unlink() if damage is None else file.write_bytes(damage)
    with pytest.raises(ValueError, match="missing or not the file that its card describes: install"):
        adaste_zoo.path(DIGITS)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"name": "x"}', b"\xff"])
def test_a_damaged_card_is_refused_by_its_path(own_zoo: Path, text: str | bytes) -> None:
    (own_zoo / f"{DIGITS}.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=f"the card .*{DIGITS}.json is damaged"):
        adaste_zoo.cards()


def test_where_the_package_is_missing_it_is_said_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "adaste_zoo", None)
    with pytest.raises(ImportError, match=r"adaste-zoo: in a checkout of adaste, pip install \./zoo"):
        adaste.load_packed(f"zoo:{DIGITS}")


def test_a_file_that_is_not_there_is_missing_in_words(tmp_path: Path) -> None:
    words = r'nothing: there is no such file; adaste\.pack and `adaste export` write one, "zoo:NAME" is one of the'
    with pytest.raises(FileNotFoundError, match=words):
        adaste.load_packed(tmp_path / "nothing")


def test_the_zoo_is_listed_without_the_runtime_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["zoo"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (line,) = (line for line in lines if line.startswith(DIGITS))
    assert "(n = 3)" in line and "13,032" in line
    assert "pip install ./runtime" in lines[-1]


@pytest.mark.parametrize(("threads", "told"), [("1", "1 thread of this"), ("2", "2 threads of this")])
def test_the_zoo_says_with_how_many_threads_it_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], threads: str, told: str
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    monkeypatch.setattr("adaste.cli.networks._milliseconds", lambda path, arguments, int8: "1 / 2")
    assert main(["zoo", "--threads", threads]) == 0
    assert told in capsys.readouterr().out.splitlines()[-1]


@pytest.mark.slow
def test_the_zoo_is_listed_with_the_milliseconds_of_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("adaste_runtime", reason="the runtime is not built: make .venv/runtime")
    assert main(["zoo", "--seconds", "0.01", "--threads", "1"]) == 0
    head, line, *_ = capsys.readouterr().out.splitlines()
    assert head.split()[-3:] == ["ms", "ms,", "8-bit"]
    shortest, median = (float(part) for part in line.rsplit("  ", 1)[1].split(" / "))
    assert 0 <= shortest <= median
