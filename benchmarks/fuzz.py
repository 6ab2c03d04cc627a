"""What the fuzzers and kernel checks of the runtime say, as a record: python benchmarks/fuzz.py --output FILE.json

Mutated files and random shapes under sanitizers (runtime/fuzz/run.sh), then the kernels that this processor may lack,
emulated (runtime/tests/check_*.sh). A failure of any of them ends this program, and there is no record. What is
skipped, because a tool is missing, says so in the record.
"""

import argparse
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from adaste._util.files import write_json
from adaste.runs.environment import commit, processor

ROOT = Path(__file__).parents[1]


def printed_by(*command: str) -> list[str]:
    """The lines of a program that must succeed."""
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=2000, help="mutated under address and undefined (2000)")
    parser.add_argument("--thread-files", type=int, default=200, help="mutated under ThreadSanitizer (200)")
    parser.add_argument("--shapes", type=int, default=300, help="for every emulated kernel (300)")
    parser.add_argument("--seed", type=int, default=0, help="the first (0)")
    parser.add_argument("--output", type=Path, help="write a record, as JSON")
    arguments = parser.parse_args()
    seed, shapes = str(arguments.seed), str(arguments.shapes)
    commands = [
        ["runtime/fuzz/run.sh", str(arguments.files), seed],
        ["runtime/fuzz/run.sh", str(arguments.thread_files), seed, "thread"],
        ["runtime/tests/check_simde.sh", shapes, seed],
        ["runtime/tests/check_neon.sh", shapes, seed],
    ]
    began = datetime.now(UTC).isoformat(timespec="seconds")
    record = {
        "date": began,
        "commit": commit(ROOT / "runtime"),
        "processor": processor(),
        "compiler": printed_by("g++", "--version")[0],
    }
    rows = []
    for command in commands:
        rows.append({"command": " ".join(command), "printed": printed_by(*command)})
        print(f"{rows[-1]['command']}:", *rows[-1]["printed"], sep="\n  ", flush=True)
    if arguments.output:
        write_json(arguments.output, {**record, "rows": rows})


if __name__ == "__main__":
    main()
