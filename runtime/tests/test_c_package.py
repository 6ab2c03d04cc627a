"""The C library as other projects get it: installed, found by CMake and pkg-config, linked to the example."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from adaste_runtime import __version__
from cmake_build import HOME, build, cmake
from networks import residual_network
from test_version_2 import block

EXAMPLE = HOME / "examples"


def output(*command, **environment) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **{name: str(value) for name, value in environment.items()}},
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}"
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory) -> Path:
    """The folder of an installation that was moved after it was installed."""
    folder = tmp_path_factory.mktemp("installed")
    output(cmake(), "--install", build("adaste_shared", "adaste_static"), "--prefix", folder / "first")
    return (folder / "first").rename(folder / "moved")


@pytest.fixture(scope="module")
def libraries(prefix) -> Path:
    return next(prefix.rglob("libadaste_runtime.a")).parent


@pytest.fixture(scope="module")
def compiler() -> str:
    found = shutil.which(os.environ.get("CC", "cc"))
    if found is None:
        pytest.skip("a C compiler is missing")
    return found


def built_with_cmake(prefix, folder, library):
    output(cmake(), "-S", EXAMPLE, "-B", folder, f"-DCMAKE_PREFIX_PATH={prefix}", f"-DLIBRARY={library}")
    output(cmake(), "--build", folder)
    return folder


def built_with_pkg_config(libraries, folder, compiler, *options):
    """`options` are those of pkg-config and of the linker for one of the libraries."""
    if shutil.which("pkg-config") is None:
        pytest.skip("pkg-config is missing")
    flags = output(
        "pkg-config", "--cflags", "--libs", *options, "adaste_runtime", PKG_CONFIG_PATH=libraries / "pkgconfig"
    )
    folder.mkdir()
    for name in ("classify", "run_tensors"):
        output(
            compiler, "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", EXAMPLE / f"{name}.c", *flags.split(),
            *options, f"-Wl,-rpath,{libraries}", "-o", folder / name,
        )  # fmt: skip
    return folder


@pytest.fixture(params=["CMake, shared", "CMake, static", "pkg-config, shared", "pkg-config, static"])
def programs(request, prefix, libraries, compiler, tmp_path) -> Path:
    tool, library = request.param.split(", ")
    if tool == "CMake":
        return built_with_cmake(prefix, tmp_path / "build", library)
    return built_with_pkg_config(libraries, tmp_path / "build", compiler, *["-static"] * (library == "static"))


def test_the_example_runs_with_the_installed_library(programs, loaded, tmp_path):
    program, packing = programs / "classify", residual_network(np.random.default_rng(0))[0]
    model = packing.write(tmp_path)
    assert output(program, model) == (
        f"adaste_runtime {__version__}\ninput input: float32 (any, 3, 12, 10)\noutput logits: float32 (any, 7)\n"
    )
    pixels = np.random.default_rng(1).integers(0, 256, (1, 12, 10, 3), np.uint8)
    (tmp_path / "pixels").write_bytes(pixels.tobytes())
    logits = loaded(packing)(pixels)[0]
    best = logits.argmax()
    assert output(program, model, tmp_path / "pixels") == f"class {best}, class {best}: {logits[best]:g}\n"


def test_the_example_for_inputs_by_name_runs_any_network(programs, loaded, tmp_path):
    packing = block()
    x, t = np.random.default_rng(1).standard_normal((1, 4, 6, 5), np.float32), np.array([[0, 8, 3, 1, 2]])
    files = []
    for name, numbers in (("x", x), ("t", t)):
        files.append(tmp_path / name)
        files[-1].write_bytes(numbers.tobytes())
    printed = output(programs / "run_tensors", packing.write(tmp_path), *files).splitlines()
    expected = loaded(packing)(x, t)
    assert printed == [
        f"{name} ({', '.join(map(str, value.shape))}): {' '.join(f'{number:g}' for number in value.ravel()[:5])}"
        for name, value in expected.items()
    ]
    files[1].write_bytes(np.array([9, 0, 0, 0, 0]).tobytes())
    failed = subprocess.run([programs / "run_tensors", packing.write(tmp_path), *files], capture_output=True, text=True)
    assert (failed.returncode, failed.stderr) == (1, "'t' must hold whole numbers from 0 to 8\n")


def test_programs_ask_for_the_library_of_the_same_binary_interface(prefix, libraries, compiler, tmp_path):
    program = built_with_pkg_config(libraries, tmp_path / "build", compiler) / "classify"
    link = (libraries / "libadaste_runtime.so").rename(tmp_path / "for compiling only")
    try:
        assert "usage" in subprocess.run([program], capture_output=True, text=True).stderr
    finally:
        link.rename(libraries / "libadaste_runtime.so")
    major = __version__.split(".")[0]
    assert {path.name for path in libraries.glob("libadaste_runtime.so*")} == {
        "libadaste_runtime.so", f"libadaste_runtime.so.{major}", f"libadaste_runtime.so.{__version__}"
    }  # fmt: skip


def test_the_shared_library_has_the_functions_of_the_header_and_no_others(libraries):
    nm = shutil.which("nm") or pytest.skip("nm is missing")
    listed = output(nm, "--dynamic", "--defined-only", libraries / "libadaste_runtime.so")
    header = (HOME / "include" / "adaste_runtime.h").read_text()
    assert set(re.findall(r" [TVWBDR] (adaste\w+)", listed)) == set(re.findall(r"^ADASTE_API .*?(\w+)\(", header, re.M))
    assert not re.findall(r"_ZN6adaste\w+", listed)


def test_a_project_that_wants_another_version_is_told(prefix, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(p LANGUAGES C)\nfind_package(adaste_runtime 99 REQUIRED)\n"
    )
    done = subprocess.run(
        [cmake(), "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}"],
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0 and f"version: {__version__}" in done.stderr
