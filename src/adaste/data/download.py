"""Files from their publishers, resumed where they broke off and compared with the published checksum."""

import hashlib
import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from adaste._util.checks import require
from adaste._util.files import NotWrittenError, try_lock
from adaste.data.dataset import DataError

BLOCK = 1 << 18
TIMEOUT = 60.0
PASSING = (408, 425, 429, 500, 502, 503, 504)
"""Answers of a server after which it is worth asking again."""


@dataclass(frozen=True, kw_only=True)
class Download:
    """A file at its publisher: `path` is where it belongs inside the data folder."""

    url: str
    path: str
    bytes: int
    md5: str

    def __post_init__(self) -> None:
        require("bytes", self.bytes, least=1)
        if not self.url.startswith(("https://", "http://")):
            raise ValueError(f"url must begin with https:// or http://, got {self.url!r}")
        if len(self.md5) != 32:
            raise ValueError(f"md5 must have 32 hexadecimal digits, got {self.md5!r}")


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How often a download is tried, and the pause before the second time; each later pause is twice as long."""

    attempts: int = 5
    first_pause: float = 2.0
    sleep: Callable[[float], None] = time.sleep


class _RejectedError(Exception):
    """The server's answer will not change by asking again."""


def fetch(download: Download, folder: Path, *, progress: bool, patience: Patience | None = None) -> Path:
    """Download a file into `folder` unless it is there already, and return its path."""
    target = folder / download.path
    if target.is_file() and _is_whole(target, download):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    with _lock_part(part):
        with bar(target.name, download.bytes, shown=progress, in_bytes=True) as show:
            _retry(download, part, show, patience or Patience())
        if not _is_whole(part, download):
            part.unlink()
            raise DataError(
                f"{download.url} gave other bytes than published (md5 {download.md5} was expected); "
                "the file was removed, try again later or fetch it elsewhere"
            )
        part.replace(target)
    return target


@contextmanager
def _lock_part(part: Path) -> Iterator[None]:
    """Lock a file, to which only one process may add; at the end it is removed if it is empty."""
    with part.open("ab") as file:
        try:
            there = try_lock(file) and part.exists()  # until just now another process may have had it
            taken = not (there and os.path.samestat(part.stat(), os.fstat(file.fileno())))
        except (OSError, ImportError):  # a system or a file system without locks
            taken = False
        if taken:
            raise DataError(f"another process is downloading {part}: wait for it")
        try:
            yield
        finally:
            if part.exists() and not part.stat().st_size:
                part.unlink()


def _retry(download: Download, part: Path, show: Callable[[int], None], patience: Patience) -> None:
    pause = patience.first_pause
    for attempt in range(1, patience.attempts + 1):
        try:
            _continue(download, part, show)
            return
        except _RejectedError as error:
            raise DataError(f"{download.url} could not be downloaded: {error}") from error
        except (urllib.error.URLError, http.client.HTTPException, ConnectionError) as error:
            if attempt == patience.attempts:
                arrived = f"; what arrived is in {part} and will be continued" if part.stat().st_size else ""
                raise DataError(
                    f"{download.url} could not be downloaded in {attempt} attempts, "
                    f"the last one failed with: {error}{arrived}"
                ) from error
        patience.sleep(pause)
        pause *= 2


def _continue(download: Download, part: Path, show: Callable[[int], None]) -> None:
    """Fetch what is missing of `part`. Raise ConnectionError if the connection ends before the file does."""
    done = part.stat().st_size if part.is_file() else 0
    if done > download.bytes:
        os.truncate(part, 0)
        done = 0
    if done == download.bytes:
        return
    request = urllib.request.Request(download.url, headers={"User-Agent": "adaste"})
    if done:
        request.add_header("Range", f"bytes={done}-")
    with _open_url(request, part) as answer:
        if answer.status != 206 or not answer.headers.get("Content-Range", "").startswith(f"bytes {done}-"):
            done = 0  # the server sends the whole file, whatever it was asked for
        with _open_part(part, "ab" if done else "wb") as file:
            while block := _read(answer, min(BLOCK, download.bytes - done + 1)):
                done += len(block)
                if done > download.bytes:
                    file.truncate(0)
                    raise _RejectedError(f"the file is larger than the published {download.bytes:,} bytes")
                file.write(block)
                show(done)
            file.flush()
            os.fsync(file.fileno())
    if done < download.bytes:
        raise ConnectionError(f"the connection ended after {done:,} of {download.bytes:,} bytes")


def _read(answer: http.client.HTTPResponse, size: int) -> bytes:
    try:
        return answer.read(size)
    except OSError as error:  # there are many, of sockets and of TLS, and none is of a file
        raise ConnectionError(str(error)) from error


@contextmanager
def _open_part(part: Path, mode: Literal["ab", "wb"]) -> Iterator[BinaryIO]:
    try:
        with part.open(mode) as file:
            yield file
    except ConnectionError:
        raise
    except OSError as error:
        raise NotWrittenError.because(error, f"write {part}", "it will be continued") from error


def _open_url(request: urllib.request.Request, part: Path) -> http.client.HTTPResponse:
    try:
        answer: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # the server has less than we have: begin anew
            os.truncate(part, 0)
        elif error.code not in PASSING:
            raise _RejectedError(f"the server answered {error.code} {error.reason}") from error
        raise
    except urllib.error.URLError:
        raise
    except OSError as error:
        raise ConnectionError(str(error)) from error
    return answer


def _is_whole(path: Path, download: Download) -> bool:
    if path.stat().st_size != download.bytes:
        return False
    found = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            found.update(block)
    return found.hexdigest() == download.md5


@contextmanager
def bar(what: str, total: int, *, shown: bool, in_bytes: bool = False) -> Iterator[Callable[[int], None]]:
    """Show a bar on the standard error stream during the block; yield the function that takes how much is done."""
    amount = DownloadColumn() if in_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), amount, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not shown) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)
