"""What tests compile themselves: targets of CMakeLists.txt, in one folder that is kept."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

fcntl = pytest.importorskip("fcntl", reason="CMake builds for tests on POSIX systems, where folders can be locked")

HOME = Path(__file__).parents[1]
BUILD = HOME / "build" / "testing"


def cmake() -> Path:
    """The program, which may be beside this Python."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    found = shutil.which("cmake", path=path)
    if found is None:
        pytest.skip("CMake, which builds what this test calls, is missing", allow_module_level=True)
    return Path(found)


def build(*targets: str) -> Path:
    """The folder with the targets, compiled as the wheel's kernels are; only what changed is compiled again."""
    program = cmake()
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / "lock").open("w") as lock:  # tests may run in several processes
        fcntl.flock(lock, fcntl.LOCK_EX)
        for command in (
            [program, "-S", HOME, "-B", BUILD, "-DADASTE_TESTING=ON"],
            [program, "--build", BUILD, "--parallel", "2", "--target", *targets],
        ):
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if done.returncode != 0:
                raise RuntimeError(f"{', '.join(targets)} could not be built:\n{done.stdout[-5000:]}")
    return BUILD
