"""Build the corpus of the larger model: the source of large Python packages, as their publishers have them on PyPI.

    python -m benchmarks.language.corpus corpus.bin.xz

corpus.json names the wheels with their hashes, and the hash of the corpus, which is the same for everybody. All their
modules between 200 bytes and 200 KB in UTF-8 are in it, each content once, in the order of their hashes. A byte 255,
which no text has, ends each.
"""

import argparse
import hashlib
import json
import lzma
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from adaste._util.files import write_atomically

LIST = Path(__file__).with_name("corpus.json")
LEAST, MOST = 200, 200_000
END = b"\xff"


def download(wheels: list[dict[str, str]], folder: Path) -> list[Path]:
    """Download wheels, whose hashes pip checks; return their files."""
    lines = [f"{each['name']}=={each['version']} --hash=sha256:{each['sha256']}" for each in wheels]
    requirements = folder / "requirements.txt"
    requirements.write_text("\n".join(lines) + "\n")
    options = ["--no-deps", "--only-binary=:all:", "--python-version=3.13", "--require-hashes", "--quiet"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), "-r", str(requirements)]
    subprocess.run(command, check=True)
    return sorted(folder.glob("*.whl"))


def modules_in(wheels: Iterable[Path]) -> Iterator[bytes]:
    """Yield the content of every module that belongs into the corpus."""
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for entry in archive.infolist():
                if entry.filename.endswith(".py") and LEAST <= entry.file_size <= MOST:
                    yield archive.read(entry)


def build(modules: Iterable[bytes]) -> bytes:
    """Return modules as one text: each once, in the order of their hashes, with an end behind each."""
    by_hash = {hashlib.sha256(module).digest(): module for module in modules if _is_text(module)}
    return b"".join(by_hash[each] + END for each in sorted(by_hash))


def _is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, help="the file to write, compressed")
    arguments = parser.parse_args()
    listed: dict[str, Any] = json.loads(LIST.read_text())
    with tempfile.TemporaryDirectory() as folder:
        corpus = build(modules_in(download(listed["wheels"], Path(folder))))
    found = hashlib.sha256(corpus).hexdigest()
    if found != listed["sha256"]:
        raise SystemExit(f"the corpus has the hash {found}, corpus.json says {listed['sha256']}: nothing was written")
    write_atomically(arguments.path, lzma.compress(corpus, preset=6))
    print(f"{len(corpus):,} bytes, {arguments.path.stat().st_size:,} compressed")


if __name__ == "__main__":
    main()
