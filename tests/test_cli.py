"""The command line, called as a function where that is the same, else as a process."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import ModuleType

import pytest
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import adaste
from adaste.cli import main
from adaste.recipe import Recipe
from adaste.recipes import RECIPES
from adaste.results import read_records, read_result
from data.build import write_cifar10

Run = tuple[int, str, str]


@pytest.fixture
def call(tmp_path: Path, data_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """Runs a command in an empty folder: gives its exit code and what it printed."""
    monkeypatch.setenv("ADASTE_DATA", str(data_folder))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Run:
        code = main(arguments)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, data_folder: Path) -> Path:
    """A finished run, not to be changed."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    arguments = ["--epochs", "3", "--folder", str(folder), "--data", str(data_folder)]
    assert main(["train", "digits-mlp-adaste-annealed", *arguments]) == 0
    return folder


def copied(run: Path, into: Path) -> Path:
    into.mkdir()
    for path in run.glob("*.*"):
        if path.is_file():
            (into / path.name).write_bytes(path.read_bytes())
    return into


def shown(call, *arguments: str) -> Recipe:
    code, out, _ = call("show", *arguments)
    assert code == 0
    return Recipe.from_json(out)


# --- without work


def test_help_and_version_do_not_wait_for_torch() -> None:
    program = (
        "import sys\nfrom adaste.cli import main\n"
        "for option in ('--help', '--version'):\n"
        "    try:\n        main([option])\n    except SystemExit as end:\n        assert end.code == 0\n"
        "assert not {'torch', 'numpy', 'rich'} & sys.modules.keys()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"adaste {adaste.__version__}" in done.stdout


@pytest.mark.parametrize(
    "command",
    [["train"], ["evaluate"], ["export"], ["study"], ["data"], ["data", "list"], ["data", "get"], ["list"], ["show"]],
)
def test_every_command_explains_itself_with_examples(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([*command, "--help"])
    out = capsys.readouterr().out
    assert end.value.code == 0
    assert "examples:" in out and f"adaste {command[0]}" in out


@pytest.mark.parametrize("arguments", [[], ["trian"], ["train"], ["train", "x", "--keep", "0"], ["study"]])
def test_what_is_not_understood_ends_with_two(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_lists_name_what_there_is(call) -> None:
    assert "md-softmax-s" in call("list", "methods")[1]
    assert "binaryconnect-vgg" in call("list", "networks")[1]
    assert "fashion-mnist" in call("list", "data")[1]
    everything = call("list")[1]
    assert all(title in everything.splitlines() for title in ("methods", "networks", "data", "recipes"))


def test_recipes_are_listed_compactly_or_all_or_by_a_part_of_their_name(call) -> None:
    assert len(call("list", "recipes")[1].splitlines()) < 15
    names = [line.split()[0] for line in call("list", "recipes", "--all")[1].splitlines()]
    assert names == list(RECIPES)
    some = [line.split()[0] for line in call("list", "recipes", "digits-mlp")[1].splitlines()]
    assert some == [name for name in RECIPES if "digits-mlp" in name]
    code, out, err = call("list", "recipes", "nosuch")
    assert (code, out) == (1, "") and "'nosuch'" in err


def test_data_are_listed_with_the_place_they_were_found_in(call, tmp_path: Path) -> None:
    code, out, _ = call("data", "list", "--data", str(tmp_path))
    lines = {line.split()[0]: line for line in out.splitlines()}
    assert code == 0
    assert "not found" in lines["cifar10"]
    assert "sklearn" in lines["digits"]


def test_data_that_cannot_be_downloaded_are_refused(call) -> None:
    code, _, err = call("data", "get", "digits")
    assert code == 1 and "scikit-learn" in err
    code, _, err = call("data", "get", "cifar11")
    assert code == 1 and "cifar10" in err


# --- recipes


def test_a_named_recipe_is_made_for_its_length_however_that_is_given(call) -> None:
    short = shown(call, "digits-mlp-adaste", "--epochs", "7")
    assert short == shown(call, "digits-mlp-adaste", "--set", "epochs=7")
    assert short.epochs == short.base.lr.length == 7


def test_in_a_recipe_from_a_file_epochs_are_a_field_like_any_other(call, tmp_path: Path) -> None:
    (tmp_path / "my.json").write_text(call("show", "digits-mlp-adaste")[1])
    changed = shown(call, "my.json", "--epochs", "7")
    assert (changed.epochs, changed.base.lr.length) == (7, 20)


@pytest.mark.parametrize("change", [["--seed", "3"], ["--set", "seed=3"]])
def test_a_seed_reaches_the_noise_of_an_estimator(call, change: list[str], tmp_path: Path) -> None:
    (tmp_path / "my.json").write_text(call("show", "digits-mlp-bayesbinn")[1])
    for source in ("digits-mlp-bayesbinn", "my.json"):
        recipe = shown(call, source, *change)
        assert recipe.seed == recipe.estimator.noise.seed == 3


def test_later_changes_win(call) -> None:
    assert shown(call, "digits-mlp-adaste", "--epochs", "3", "--set", "epochs=5", "--set", "batch=64").epochs == 5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["digits-mlp-adste"], ["digits-mlp-adste", "near it: digits-mlp-adaste"]),
        (["digits-mlp-adaste", "--set", "base.momentun=1"], ["base.momentun", "near it: momentum"]),
        (["digits-mlp-adaste", "--set", "batch"], ["key=value", "'batch'"]),
        (["digits-mlp-adaste", "--epochs", "many"], ["epochs", "many"]),
        (["digits-mlp-adaste", "--epochs", "0"], ["epochs", "0"]),
        (["missing.json"], ["missing.json", "No such file"]),
        (["broken.json"], ["broken.json"]),
        (["two.json"], ["two.json", "2 recipes", "adaste study"]),
        (["wrong.json"], ["wrong.json", "entry 2", "near it"]),
        (["twice.json"], ["twice.json", "'kind' is given 2 times"]),
        (["deep.json"], ["deep.json", "nested too deeply"]),
        (["empty.json"], ["empty.json", "the list is empty"]),
    ],
)
def test_a_recipe_that_is_none_is_refused_in_one_line(call, tmp_path: Path, arguments, words) -> None:
    (tmp_path / "broken.json").write_text('{"kind": "Recipe"')
    (tmp_path / "two.json").write_text('["digits-mlp-bop", "digits-mlp-pmf"]')
    (tmp_path / "twice.json").write_text('[{"kind": "Recipe", "kind": "Recipe"}]')
    (tmp_path / "deep.json").write_text("[" * 900 + "]" * 900)
    (tmp_path / "empty.json").write_text("[]")
    (tmp_path / "wrong.json").write_text('["digits-mlp-bop", "digits-mlp-bopp"]')
    for command in ("train", "show"):
        code, out, err = call(command, *arguments)
        assert (code, out) == (1, "")
        assert len(err.splitlines()) == 1 and err.startswith("error: ")
        assert all(word in err for word in words), err
    assert not (tmp_path / "runs").exists()


def test_debug_shows_where_an_error_comes_from(call) -> None:
    with pytest.raises(ValueError, match="no recipe"):
        call("show", "nosuch", "--debug")


# --- train


def test_away_from_a_terminal_a_run_is_two_lines_and_a_finished_one_is_not_run_again(call, tmp_path: Path) -> None:
    code, out, err = call("train", "digits-mlp-adaste", "--epochs", "2")
    first, last = out.splitlines()
    (folder,) = (tmp_path / "runs").iterdir()
    assert (code, err) == (0, "")
    assert "AdaSTE" in first and "digits" in first and "2 epochs" in first
    result = read_result(folder)
    assert f"{result.last_accuracy:.2f} %" in last and str(folder.relative_to(tmp_path)) in last
    assert folder.name == f"digits-mlp-adaste-{Recipe.from_json((folder / 'recipe.json').read_text()).digest}"
    before = (folder / "result.json").stat().st_mtime_ns
    code, out, _ = call("train", "digits-mlp-adaste", "--epochs", "2")
    assert code == 0 and "is finished" in out and out.splitlines()[-1] == last
    assert (folder / "result.json").stat().st_mtime_ns == before


def test_options_reach_the_run(call, tmp_path: Path) -> None:
    options = ["--keep", "3", "--save-every", "0", "--deterministic", "--engine", "eager", "--threads", "1"]
    assert call("train", "digits-mlp-adaste", "--epochs", "2", "--folder", "here", *options)[0] == 0
    (start,) = json.loads((tmp_path / "here" / "environment.json").read_text())
    assert (start["deterministic"], start["engine"], start["threads"]) == (True, "eager", 1)
    assert len(list((tmp_path / "here" / "checkpoints").iterdir())) == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["mnist-mlp-adaste"], ["mnist was not found", "adaste data get mnist"]),
        (["digits-mlp-adaste", "--device", "cuda:99"], ["cuda:99", "CUDA devices"]),
        (["digits-mlp-adaste", "--device", "gpu"], ["device must be", "'gpu'"]),
        (["digits-mlp-full-precision", "--set", "base.lr=1e30"], ["diverged in epoch 1"]),
        (["digits-mlp-adaste", "--set", "holdout=5000"], ["holdout", "1297"]),
        (["digits-mlp-adaste", "--folder", "file"], ["file"]),
    ],
)
def test_a_run_that_cannot_be_made_ends_in_one_clear_line(call, tmp_path: Path, arguments, words) -> None:
    (tmp_path / "file").touch()
    code, _, err = call("train", *arguments)
    assert code == 1
    assert len(err.splitlines()) == 1 and err.startswith("error: ")
    assert all(word in err for word in words), err


def test_a_folder_of_another_recipe_and_a_folder_in_use_are_refused(call, trained: Path, tmp_path: Path) -> None:
    code, _, err = call("train", "digits-mlp-bop", "--folder", str(trained))
    assert code == 1 and "another recipe" in err
    (tmp_path / "used").mkdir()
    with (tmp_path / "used" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, _, err = call("train", "digits-mlp-bop", "--folder", "used")
    assert code == 1 and "another process trains" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_says_so_and_goes_on_when_started_again(call, tmp_path: Path, number: int) -> None:
    arguments = ["train", "digits-mlp-adaste", "--epochs", "40", "--folder", "run"]
    metrics = tmp_path / "run" / "metrics.jsonl"

    def send() -> None:
        while not (metrics.exists() and metrics.read_text().count("\n") > 2):
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    threading.Thread(target=send, daemon=True).start()
    code, out, err = call(*arguments)
    assert code == 128 + number
    assert len(out.splitlines()) == 1
    assert "saved: start it again to go on" in err and len(err.splitlines()) == 1
    assert read_result(tmp_path / "run") is None
    code, out, _ = call(*arguments)
    assert code == 0 and "going on in epoch" in out
    assert [record.epoch for record in read_records(tmp_path / "run")] == list(range(40))


def test_two_processes_of_torchrun_train_one_network_and_one_of_them_speaks(tmp_path: Path, data_folder: Path) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "adaste"]
    arguments = ["train", "digits-mlp-adaste", "--epochs", "2", "--folder", "run", "--data", str(data_folder)]
    environment = {**os.environ, "PYTHONPATH": str(Path(adaste.__file__).parents[1])}
    done = subprocess.run([*torchrun, *arguments], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2
    assert f"{read_result(tmp_path / 'run').last_accuracy:.2f} %" in done.stdout
    (start,) = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert start["processes"] == 2


def test_tensorboard_that_is_not_installed_is_asked_for(call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    code, _, err = call("train", "digits-mlp-adaste", "--tensorboard")
    assert code == 1 and "adaste[tensorboard]" in err


def test_tensorboard_gets_a_scalar_per_number_and_epoch(call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[str, float, int]] = []

    class SummaryWriter:
        def __init__(self, folder: str, purge_step: int) -> None:
            assert (folder, purge_step) == (str(Path("run") / "tensorboard"), 0)

        def add_scalar(self, name: str, value: float, step: int) -> None:
            written.append((name, value, step))

        def flush(self) -> None: ...

    package = ModuleType("torch.utils.tensorboard")
    package.SummaryWriter = SummaryWriter
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", package)
    arguments = ["--tensorboard", "--epochs", "2", "--folder", "run"]
    assert call("train", "digits-mlp-adaste-annealed", *arguments)[0] == 0
    for record in read_records(tmp_path / "run"):
        assert ("test_accuracy", record.test_accuracy, record.epoch) in written
        assert ("method/mu", record.method["mu"], record.epoch) in written
    assert not [name for name, _, _ in written if name == "holdout_accuracy"]


# --- evaluate


@pytest.mark.parametrize("which", ["last", "best"])
def test_evaluation_gives_exactly_what_was_recorded(call, trained: Path, which: str) -> None:
    code, out, _ = call("evaluate", str(trained), "--network", which)
    _, now, recorded = out.splitlines()
    assert code == 0
    assert now.split()[1:6] == recorded.split()[1:6]
    result = read_result(trained)
    assert f"{getattr(result, f'{which}_accuracy'):.2f} %" in now


def test_a_folder_that_is_no_run_or_an_unfinished_one_is_refused(call, trained: Path, tmp_path: Path) -> None:
    code, _, err = call("evaluate", str(tmp_path))
    assert code == 1 and "not the folder of a run" in err
    run = copied(trained, tmp_path / "run")
    (run / "last.safetensors").unlink()
    code, _, err = call("evaluate", str(run))
    assert code == 1 and "when the run is finished" in err


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
        "no safetensors": lambda: path.write_bytes(b"nothing of the kind"),
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
    result = read_result(Path("run"))
    assert result is not None and result.last_accuracy > 50  # ten classes, each with a colour of its own
    code, out, err = call("evaluate", "run", "--data", str(tmp_path / "cifar"))
    assert code == 0 and f"{result.last_accuracy:.2f}" in out, err
