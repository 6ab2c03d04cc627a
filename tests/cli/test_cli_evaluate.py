"""`adaste evaluate`: the accuracy of a run's network again, and networks that are damaged or of something else."""

import json
import shutil
from pathlib import Path

import pytest
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from adaste.runs.folder import RunFolder
from support.archives import write_cifar10

pytestmark = pytest.mark.slow


def copied(run: Path, into: Path) -> Path:
    into.mkdir()
    for path in run.glob("*.*"):
        if path.is_file():
            (into / path.name).write_bytes(path.read_bytes())
    return into


@pytest.mark.parametrize("which", ["last", "best"])
def test_evaluation_gives_exactly_what_was_recorded(call, trained: Path, which: str) -> None:
    code, out, _ = call("evaluate", str(trained), "--network", which)
    _, now, recorded = out.splitlines()
    assert code == 0
    assert now.split()[1:6] == recorded.split()[1:6]
    result = RunFolder(trained).read_result()
    assert f"{getattr(result, f'{which}_accuracy'):.2f} %" in now


def test_several_runs_are_evaluated_one_after_the_other(call, trained: Path, tmp_path: Path) -> None:
    other = copied(trained, tmp_path / "other")
    alone = call("evaluate", str(trained))[1].splitlines()
    code, out, _ = call("evaluate", str(trained), str(other))
    assert code == 0
    assert out.splitlines() == [*alone, alone[0].replace(str(trained), str(other)), *alone[1:]]


def test_a_run_that_cannot_be_evaluated_does_not_stop_the_others(call, trained: Path, tmp_path: Path) -> None:
    broken, missing = copied(trained, tmp_path / "broken"), tmp_path / "missing"
    (broken / "last.safetensors").write_bytes(b"x")
    alone = call("evaluate", str(trained))[1]
    code, out, err = call("evaluate", str(missing), str(trained), str(broken))
    assert (code, out) == (1, alone)
    assert "2 of 3 networks were not evaluated" in err and str(missing) in err and str(broken) in err


def test_a_folder_that_is_no_run_or_an_unfinished_one_is_refused(call, trained: Path, tmp_path: Path) -> None:
    code, _, err = call("evaluate", str(tmp_path))
    assert code == 1 and "not the folder of a run" in err
    run = copied(trained, tmp_path / "run")
    (run / "last.safetensors").unlink()
    code, _, err = call("evaluate", str(run))
    assert code == 1 and "when the run is finished; --network best takes" in err
    (run / "best.safetensors").unlink()
    code, _, err = call("evaluate", str(run))
    assert code == 1 and "when the run is finished; found" in err


def _with_classes(metadata: dict[str, str], *classes: str) -> dict[str, str]:
    return {"adaste": json.dumps({**json.loads(metadata["adaste"]), "classes": classes})}


def test_a_damaged_file_and_one_that_does_not_fit_are_refused(call, trained: Path, tmp_path: Path) -> None:
    run = copied(trained, tmp_path / "run")
    path = run / "last.safetensors"
    content = path.read_bytes()
    with safe_open(path, framework="pt") as file:
        facts = file.metadata()
    tensors = {name: tensor.clone() for name, tensor in load_file(path).items()}  # else the file itself, mapped
    first, *others = tensors
    damages = {
        "truncated": lambda: path.write_bytes(content[:-100]),
        "not a safetensors file (it begins like text)": lambda: path.write_bytes(b"nothing of the kind"),
        "not how they were trained": lambda: save_file(tensors, path),
        "is only in the network": lambda: save_file({name: tensors[name] for name in others}, path, facts),
        "is only in the file": lambda: save_file({**tensors, "more": tensors[first].clone()}, path, facts),
        "in the file and": lambda: save_file({**tensors, first: tensors[first][:-1].clone()}, path, facts),
        "other classes": lambda: save_file(tensors, path, _with_classes(facts, "yes", "no")),
    }
    for words, damage in damages.items():
        damage()
        code, _, err = call("evaluate", str(run))
        assert code == 1 and words in err and len(err.splitlines()) == 1, err


def test_errors_escape_what_a_terminal_would_obey(call, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    recipe = json.loads(call("show", "digits-mlp-bop")[1])
    (tmp_path / "run" / "recipe.json").write_text(json.dumps({**recipe, "\x1b[2J\u202e": 1}))
    code, _, err = call("evaluate", str(tmp_path / "run"))
    assert code == 1 and err.rstrip("\n").isprintable() and r"\x1b[2J\u202e is no field" in err


def test_a_network_of_another_run_is_refused(call, trained: Path, tmp_path: Path) -> None:
    run = copied(trained, tmp_path / "run")
    (run / "recipe.json").write_text(call("show", "digits-mlp-bop")[1])
    code, _, err = call("evaluate", str(run))
    assert code == 1 and "belongs to another run" in err


def test_from_a_publishers_archive_to_an_evaluated_network(call, tmp_path: Path) -> None:
    write_cifar10(tmp_path / "cifar", train=300, test=100, archive=True)
    shutil.rmtree(tmp_path / "cifar" / "cifar-10-batches-bin", ignore_errors=True)
    small = ["--set", "network.widths=[64]", "--set", "precision=float32", "--set", "batch=50"]
    code, _, err = call(
        *(
            "train",
            "cifar10-mlp-straight-through",
            "--epochs",
            "4",
            "--folder",
            "run",
            "--data",
            str(tmp_path / "cifar"),
        ),
        *small,
    )
    assert code == 0, err
    result = RunFolder(Path("run")).read_result()
    assert result is not None and result.last_accuracy > 50  # ten classes, each with a colour of its own
    code, out, err = call("evaluate", "run", "--data", str(tmp_path / "cifar"))
    assert code == 0 and f"{result.last_accuracy:.2f}" in out, err


@pytest.mark.parametrize("arguments", [["FILE"], ["--network", "FILE"]], ids=["as a run", "as the network"])
def test_a_network_file_alone_is_evaluated_like_its_run(
    call, trained: Path, tmp_path: Path, arguments: list[str]
) -> None:
    alone = tmp_path / "network.safetensors"
    shutil.copy(trained / "last.safetensors", alone)
    code, out, _ = call("evaluate", *(str(alone) if part == "FILE" else part for part in arguments))
    assert code == 0
    assert out.splitlines()[1:] == call("evaluate", str(trained))[1].splitlines()[1:]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "no network was named"),
        (["--network", "worst"], "--network must be last, best or a network file that a run has left, got 'worst'"),
        (["run", "--network", "worst"], "with runs, --network must be one of last, best, got 'worst'"),
    ],
)
def test_a_network_that_nobody_can_find_is_refused(call, arguments: list[str], words: str) -> None:
    code, _, err = call("evaluate", *arguments)
    assert code == 1 and words in err


def _rewritten(path: Path, change) -> None:
    """The same tensors, with other facts."""
    with safe_open(path, framework="pt") as file:
        facts = json.loads(file.metadata()["adaste"])
    tensors = {name: tensor.clone() for name, tensor in load_file(path).items()}
    change(facts)
    save_file(tensors, path, {"adaste": json.dumps(facts)})


def test_a_network_file_of_an_older_version_is_evaluated_with_its_data_set(call, trained: Path, tmp_path: Path) -> None:
    run = copied(trained, tmp_path / "run")
    _rewritten(run / "last.safetensors", lambda facts: [facts.pop(name) for name in ("shape", "mean", "std")])
    assert call("evaluate", str(run))[1].splitlines()[1:] == call("evaluate", str(trained))[1].splitlines()[1:]


def test_the_file_says_with_which_mean_images_are_normalised(call, trained: Path, tmp_path: Path) -> None:
    run = copied(trained, tmp_path / "run")
    _rewritten(run / "last.safetensors", lambda facts: facts.update(mean=[0.9]))
    assert call("evaluate", str(run))[1].splitlines()[1] != call("evaluate", str(trained))[1].splitlines()[1]


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"shape": [9, 8, 1]}, "was trained on images of 9 x 8 x 1, those of digits are 8 x 8 x 1"),
        ({"mean": []}, "mean and std must have one number for each of 1 channels"),
        ({"shape": [8, 8]}, "not how they were trained"),
        ({"std": [0.0]}, "std must be above 0"),
    ],
)
def test_facts_of_images_that_cannot_be_are_refused(call, trained: Path, tmp_path: Path, facts, words: str) -> None:
    run = copied(trained, tmp_path / "run")
    _rewritten(run / "last.safetensors", lambda there: there.update(facts))
    code, _, err = call("evaluate", str(run))
    assert code == 1 and words in err, err
