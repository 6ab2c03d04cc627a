"""Instructions that kernels for ARM execute per multiply-add, counted by qemu: no clock and no other load changes them.

    python benchmarks/instructions.py [--zig] [--output FILE.json]

It needs cmake and Debian's packages qemu-user and g++-aarch64-linux-gnu; with --zig the kernels are compiled with the
zig of runtime/wheels.sh instead, as those of wheels are. Each count is the difference of two runs of the program
runtime/benchmarks/instructions.cpp with 1 and 3 repetitions, halved: what happens once cancels.
"""

import argparse
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path

from adaste._util.files import write_json

HOME = Path(__file__).parents[1] / "runtime"
KERNELS = ("plain", "float", "scalar", "neon", "scalar-int8", "neon-dot")
LAYERS = ((64, 32), (128, 16), (256, 8), (512, 4))
"""Channels and sides of the 3x3 convolutions of ResNet-18 at 32x32."""


def output(*command: object) -> str:
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout


def zig() -> Path:
    return Path(output(HOME / "zig.sh", sys.executable).strip())


def built(folder: Path, with_zig: bool) -> Path:
    """The program for ARM, which needs no libraries."""
    if with_zig:
        compiler = [f"-DCMAKE_TOOLCHAIN_FILE={HOME}/cmake/zig.cmake", f"-DZIG={zig()}", "-DTARGET=aarch64-linux-musl"]
    else:
        compiler = [
            "-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64",
            "-DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++", "-DCMAKE_EXE_LINKER_FLAGS=-static",
        ]  # fmt: skip
    output("cmake", "-S", HOME, "-B", folder, "-DADASTE_BENCH=ON", *compiler)
    output("cmake", "--build", folder, "--target", "instructions", "--parallel", "2")
    return folder / "instructions"


def count(plugin: Path, program: Path, *arguments: object) -> int:
    command = ["qemu-aarch64", "-cpu", "max", "-plugin", plugin, program, *arguments]
    done = subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True)
    return int(done.stderr)


def record(with_zig: bool) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        plugin = Path(folder) / "count.so"
        output("cc", "-shared", "-fPIC", "-O2", HOME / "benchmarks" / "instruction_count.c", "-o", plugin)
        program = built(Path(folder) / "build", with_zig)
        compiler = (
            f"zig {output(zig(), 'version').strip()}" if with_zig else output("aarch64-linux-gnu-g++", "--version")
        )
        rows = []
        for channels, side in LAYERS:
            products = 9 * channels * channels * side * side
            for kernel in KERNELS:
                once, thrice = (count(plugin, program, kernel, channels, side, repeats) for repeats in (1, 3))
                each = (thrice - once) / 2 / products
                rows.append({"channels": channels, "side": side, "kernel": kernel, "instructions": round(each, 4)})
                print(f"{channels:4} channels, {side:2} x {side:<2}  {kernel:<12} {each:.3f}", flush=True)
    return {
        "what": "instructions per multiply-add of a 3x3 convolution, padding included in the multiply-adds",
        "date": date.today().isoformat(),
        "compiler": compiler.splitlines()[0],
        "emulator": output("qemu-aarch64", "--version").splitlines()[0],
        "n": "1: counts are the same in every run",
        "rows": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--zig", action="store_true", help="compile with zig, as wheels are")
    parser.add_argument("--output", type=Path, help="write the counts to this file as well")
    options = parser.parse_args()
    found = record(options.zig)
    if options.output:
        write_json(options.output, found)


if __name__ == "__main__":
    main()
