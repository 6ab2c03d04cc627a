"""The programs that are built on demand alone compile, too."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HOME = Path(__file__).parents[1]
PROGRAMS = sorted(path for folder in ("benchmarks", "fuzz") for path in (HOME / folder).glob("*.c*"))
LANGUAGES = {".c": ("CC", "gcc", "-std=c99"), ".cpp": ("CXX", "g++", "-std=c++17")}


def profiled() -> list[Path]:
    """What is compiled with ADASTE_PROFILE to another thing than without."""
    sources = sorted(path for folder in ("benchmarks", "src") for path in (HOME / folder).rglob("*.cpp"))
    return [path for path in sources if '"exec/profile.h"' in path.read_text(encoding="utf-8")]


def compile_alone(source, *options):
    variable, usual, language = LANGUAGES[source.suffix]
    compiler = shutil.which(os.environ.get(variable, usual))
    if compiler is None:
        pytest.skip(f"{usual}, which compiles {source.name}, is missing")
    folders = [f"-I{HOME / folder}" for folder in ("include", "src", ".")]
    command = [compiler, language, "-fsyntax-only", "-Wall", "-Wextra", "-Werror", *folders, *options, source]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("program", sorted({*PROGRAMS} - {*profiled()}), ids=lambda path: path.name)
def test_a_program_that_is_built_on_demand_compiles(program):
    compile_alone(program)


@pytest.mark.parametrize("source", profiled(), ids=lambda path: path.name)
def test_the_profile_and_what_it_measures_compile(source):
    compile_alone(source, "-DADASTE_PROFILE")
