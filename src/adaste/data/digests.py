"""Names for content: the same files give the same digest on every machine.

The digest of a data set is taken of the names, sizes and SHA-256 hashes of its files. Hashing 100,000 images again
at every start would take longer than reading the decoded ones, so the digest is remembered under the names, sizes and
times of change (in nanoseconds) of the files. A file that is changed and keeps both its size and its time is not
noticed.
"""

import hashlib
import json
import os
import string
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from adaste._util.files import write_atomically

LENGTH = 32
BLOCK = 1 << 20
PIECE = 32 << 20


def content_digest(root: Path, files: list[Path], recipe: dict[str, Any], memory: Path) -> str:
    """The digest of the files under `root` and of what decides how they are read; remembered in the folder `memory`."""
    state = [(_name(path, root), (found := path.stat()).st_size, found.st_mtime_ns) for path in files]
    note = memory / f"{digest_of([str(root.resolve()), recipe, state])}.digest"
    known = _remembered(note)
    if known:
        return known
    with _threads() as pool:
        hashes = list(pool.map(_file_hash, files))
    content = [(name, size, found) for (name, size, _), found in zip(state, hashes, strict=True)]
    digest = digest_of([recipe, content])
    memory.mkdir(parents=True, exist_ok=True)
    write_atomically(note, digest.encode())
    return digest


def array_hash(path: Path) -> str:
    """The hash of a large file: of the SHA-256 hashes of its pieces, which are taken in parallel."""
    with _threads() as pool:
        pieces = pool.map(lambda start: _hash(path, start, PIECE), range(0, path.stat().st_size, PIECE))
        return hashlib.sha256(b"".join(pieces)).hexdigest()


def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=min(16, os.cpu_count() or 1))


def _name(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


def digest_of(content: Iterable[Any]) -> str:
    """A name for plain data."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:LENGTH]


def _remembered(note: Path) -> str | None:
    try:
        text = note.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return None
    return text if len(text) == LENGTH and set(text) <= set(string.hexdigits) else None


def _file_hash(path: Path) -> str:
    return _hash(path, 0, path.stat().st_size).hex()


def _hash(path: Path, start: int, length: int) -> bytes:
    found = hashlib.sha256()
    with path.open("rb") as file:
        file.seek(start)
        while length > 0 and (block := file.read(min(BLOCK, length))):
            found.update(block)
            length -= len(block)
    return found.digest()
