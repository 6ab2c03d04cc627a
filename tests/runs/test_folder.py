"""The folder of a run: one class knows its files, and processes that look after runs start at once."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import adaste
from adaste.runs.folder import NETWORKS, RunFolder

SOURCE = Path(adaste.__file__).parent
PATHS = [
    *(getattr(RunFolder(Path()), name) for name, found in vars(RunFolder).items() if isinstance(found, property)),
    *(RunFolder(Path()).network_file(which) for which in NETWORKS),
]
NAMES = sorted({path.name for path in PATHS if isinstance(path, Path)})


def test_the_files_of_a_run_are_all_asked_for() -> None:
    assert {"recipe.json", "metrics.jsonl", "result.json", "problem.txt", "best.safetensors", ".lock"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_no_other_module_spells_the_name_of_a_file_of_a_run(name: str) -> None:
    # A name that is also a usual word counts where it is a part of a path.
    spelled = re.escape(name) if "." in name else rf"/ f?[\"']{name}[\"']"
    pattern = re.compile(rf"(?<![\w-]){spelled}")
    found = [path for path in SOURCE.rglob("*.py") if pattern.search(path.read_text())]
    assert found == [SOURCE / "runs" / "folder.py"]


def test_files_are_brought_to_another_folder_without_the_lock_and_what_is_unfinished(tmp_path: Path) -> None:
    there, here = RunFolder(tmp_path / "there"), RunFolder(tmp_path / "here")
    there.checkpoints.mkdir(parents=True)
    for path in (there.recipe_file, there.result_file, there.lock_file, there.checkpoints / "epoch-1.pt"):
        path.write_text(path.name)
    (there.path / f".{there.result_file.name}.1.0123abcd.tmp").write_text("half")
    files = there.files()
    assert files == {
        "recipe.json": b"recipe.json",
        "result.json": b"result.json",
        "checkpoints/epoch-1.pt": b"epoch-1.pt",
    }
    here.update(files)
    assert here.files() == files


def test_the_result_is_brought_last_since_with_it_a_run_is_finished(tmp_path: Path) -> None:
    files, seen = RunFolder(tmp_path), list[bool]()

    class Noting(dict[str, bytes]):
        def __getitem__(self, name: str) -> bytes:
            seen.append(files.result_file.exists())
            return super().__getitem__(name)

    files.update(Noting({"result.json": b"{}", "zeros.txt": b"0", "checkpoints/a.pt": b"1"}))
    assert files.result_file.exists() and not any(seen)


@pytest.mark.slow
@pytest.mark.parametrize(
    "module", ["adaste.runs.folder", "adaste.runs.study.processes", "adaste.runs.study.ray_worker"]
)
def test_processes_that_look_after_runs_need_no_torch(module: str) -> None:
    program = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0
