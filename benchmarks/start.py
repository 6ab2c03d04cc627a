"""One start, for benchmarks/inference.py: loads a network in an engine and runs it once, in a process of its own.

Prints the seconds since the process was started and the most memory it had. It imports nothing that an engine does not.

    BEGAN=$(date +%s.%N) python benchmarks/start.py ENGINE FOLDER SIZE
"""

import os
import sys
import time

from engines import ENGINES, ours_without_numpy

WITHOUT_NUMPY = "adaste without numpy"


def first_image(folder: str, size: int) -> memoryview:
    """The first image of an .npy file: a header, whose length is in bytes 8 and 9, and float32 values."""
    with open(f"{folder}/{size}.npy", "rb") as file:
        file.seek(10 + int.from_bytes(file.read(10)[8:], "little"))
        return memoryview(file.read(4 * 3 * size * size)).cast("f", (1, 3, size, size))


def first_result(name: str, folder: str, size: int) -> None:
    image = first_image(folder, size)
    if name == WITHOUT_NUMPY:
        ours_without_numpy(folder, size, 1, 1)(image)
        return
    import numpy as np

    ENGINES[name](folder, size, 1, 1)(np.array(image))  # a copy: torch wants memory that can be written to


def peak_bytes() -> int:
    # Not ru_maxrss: that begins with what the parent had.
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))


if __name__ == "__main__":
    engine, networks, side = sys.argv[1:]
    first_result(engine, networks, int(side))
    print(time.time() - float(os.environ["BEGAN"]), peak_bytes())
