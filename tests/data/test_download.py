"""Downloads from a local server that breaks off, ignores ranges, serves wrong bytes and answers with errors."""

import dataclasses
import errno
import hashlib
import http.client
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType

import pytest

from adaste._util.files import NotWrittenError
from adaste.data import SOURCES, DataError, Download, get, load
from adaste.data.download import Patience, fetch
from support.archives import write_cifar10

CONTENT = bytes(range(256)) * 4_000


class Publisher(ThreadingHTTPServer):
    """Serves `content`; `behaviours` says what is done with one request after the other, then all goes well."""

    daemon_threads = True

    def __init__(self, content=CONTENT):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.content = content
        self.behaviours = []
        self.ranges = []

    def download(self, path="file.bin"):
        return Download(
            url=f"http://127.0.0.1:{self.server_port}/{path}",
            path=path,
            bytes=len(CONTENT),
            md5=hashlib.md5(CONTENT).hexdigest(),
        )


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        behaviour = server.behaviours.pop(0) if server.behaviours else ""
        asked = self.headers.get("Range")
        server.ranges.append(asked)
        if behaviour.isdigit():
            self.send_error(int(behaviour))
            return
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and behaviour != "ignore range" else 0
        self.send_response(206 if start else 200)
        if start:
            shown = start + 1 if behaviour == "wrong range" else start
            self.send_header("Content-Range", f"bytes {shown}-{len(server.content) - 1}/{len(server.content)}")
        rest = server.content[start:]
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        self.wfile.write(rest[: len(rest) // 2] if behaviour == "break off" else rest)

    def log_message(self, *_):
        pass


@pytest.fixture
def publisher():
    server = Publisher()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def pauses():
    return []


@pytest.fixture
def patience(pauses):
    return Patience(attempts=4, first_pause=1.0, sleep=pauses.append)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_arrives_once(publisher, tmp_path, patience):
    for _ in range(2):
        path = fetch(publisher.download(), tmp_path, progress=True, patience=patience)
        assert path.read_bytes() == CONTENT
    assert publisher.ranges == [None]
    assert names(tmp_path) == ["file.bin"]


def test_a_connection_that_breaks_off_is_continued(publisher, tmp_path, patience, pauses):
    publisher.behaviours = ["break off", "break off"]
    path = fetch(publisher.download(), tmp_path, progress=False, patience=patience)
    assert path.read_bytes() == CONTENT
    half, three_quarters = len(CONTENT) // 2, len(CONTENT) * 3 // 4
    assert publisher.ranges == [None, f"bytes={half}-", f"bytes={three_quarters}-"]
    assert pauses == [1.0, 2.0]


@pytest.mark.parametrize("behaviour", ["ignore range", "wrong range"])
def test_a_server_that_does_not_continue_is_asked_for_the_whole_file(publisher, tmp_path, patience, behaviour):
    publisher.behaviours = ["break off", behaviour]
    if behaviour == "wrong range":  # what comes is neither the whole file nor what was asked for
        with pytest.raises(DataError):
            fetch(publisher.download(), tmp_path, progress=False, patience=Patience(attempts=2, sleep=lambda _: None))
        return
    assert fetch(publisher.download(), tmp_path, progress=False, patience=patience).read_bytes() == CONTENT


def test_two_that_fetch_at_once_do_not_write_into_one_file(publisher, tmp_path, patience):
    publisher.behaviours = ["break off"]
    refused = []

    def other(_):
        with pytest.raises(DataError, match=r"another process is downloading .*file\.bin\.part: wait for it") as caught:
            fetch(publisher.download(), tmp_path, progress=False, patience=patience)
        refused.append(caught)

    waiting = Patience(attempts=2, sleep=other)
    assert fetch(publisher.download(), tmp_path, progress=False, patience=waiting).read_bytes() == CONTENT
    assert len(refused) == 1 and len(publisher.ranges) == 2
    assert names(tmp_path) == ["file.bin"]


@pytest.mark.parametrize("error", [ssl.SSLEOFError("EOF occurred"), TimeoutError("timed out"), OSError("no route")])
@pytest.mark.parametrize("where", ["read", "begin"])
def test_whatever_happens_to_a_connection_it_is_tried_again(publisher, tmp_path, patience, monkeypatch, error, where):
    sound, met = getattr(http.client.HTTPResponse, where), []

    def breaking(answer, *arguments):
        if not met:
            met.append(error)
            raise error
        return sound(answer, *arguments)

    monkeypatch.setattr(http.client.HTTPResponse, where, breaking)
    assert fetch(publisher.download(), tmp_path, progress=False, patience=patience).read_bytes() == CONTENT
    assert met


def test_a_full_disk_is_named_at_once_and_the_download_goes_on_later(
    publisher, tmp_path, patience, pauses, monkeypatch
):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        with pytest.raises(NotWrittenError, match=r"could not write .*file\.bin\.part \(No space left on device\)"):
            fetch(publisher.download(), tmp_path, progress=False, patience=patience)
    assert pauses == []
    assert fetch(publisher.download(), tmp_path, progress=False, patience=patience).read_bytes() == CONTENT


def test_a_part_from_an_earlier_time_is_continued(publisher, tmp_path, patience):
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:1000])
    assert fetch(publisher.download(), tmp_path, progress=False, patience=patience).read_bytes() == CONTENT
    assert publisher.ranges == ["bytes=1000-"]


@pytest.mark.parametrize("part", [CONTENT, CONTENT + b"x"])
def test_a_part_that_is_whole_or_too_long_is_no_trouble(publisher, tmp_path, patience, part):
    (tmp_path / "file.bin.part").write_bytes(part)
    assert fetch(publisher.download(), tmp_path, progress=False, patience=patience).read_bytes() == CONTENT
    assert names(tmp_path) == ["file.bin"]


def test_a_range_the_server_cannot_satisfy_begins_anew(publisher, tmp_path, patience):
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:1000])
    publisher.behaviours = ["416"]
    assert fetch(publisher.download(), tmp_path, progress=False, patience=patience).read_bytes() == CONTENT
    assert publisher.ranges == ["bytes=1000-", None]


def test_wrong_bytes_are_removed(publisher, tmp_path, patience):
    publisher.content = CONTENT[:-1] + b"!"
    with pytest.raises(DataError, match=r"file\.bin gave other bytes than published \(md5 .* was expected\)"):
        fetch(publisher.download(), tmp_path, progress=False, patience=patience)
    assert names(tmp_path) == []


def test_a_file_that_is_too_long_is_given_up_and_removed(publisher, tmp_path, patience):
    publisher.content = CONTENT + b"more"
    with pytest.raises(DataError, match=r"larger than the published 1,024,000 bytes"):
        fetch(publisher.download(), tmp_path, progress=False, patience=patience)
    assert names(tmp_path) == []


def test_a_file_that_is_too_short_says_so_after_all_attempts(publisher, tmp_path, patience, pauses):
    publisher.content = CONTENT[:1000]
    publisher.behaviours = ["", "ignore range", "ignore range", "ignore range"]
    with pytest.raises(DataError, match=r"in 4 attempts.*ended after 1,000 of 1,024,000 bytes.*will be continued"):
        fetch(publisher.download(), tmp_path, progress=False, patience=patience)
    assert pauses == [1.0, 2.0, 4.0]


def test_a_file_that_does_not_exist_is_not_asked_for_again(publisher, tmp_path, patience, pauses):
    publisher.behaviours = ["404"]
    with pytest.raises(DataError, match=r"file\.bin could not be downloaded: the server answered 404 Not Found"):
        fetch(publisher.download(), tmp_path, progress=False, patience=patience)
    assert pauses == [] and names(tmp_path) == []


def test_a_server_that_is_busy_is_asked_again(publisher, tmp_path, patience, pauses):
    publisher.behaviours = ["503", "429"]
    assert fetch(publisher.download(), tmp_path, progress=False, patience=patience).read_bytes() == CONTENT
    assert pauses == [1.0, 2.0]


def test_a_server_that_is_not_there_is_named(publisher, tmp_path, patience, pauses):
    download = dataclasses.replace(publisher.download(), url="http://127.0.0.1:1/file.bin")
    with pytest.raises(
        DataError, match=r"http://127\.0\.0\.1:1/file\.bin could not be downloaded in 4 attempts.*refused"
    ) as failure:
        fetch(download, tmp_path, progress=False, patience=patience)
    assert len(pauses) == 3
    assert "arrived" not in str(failure.value)  # nothing did


def test_a_file_that_was_damaged_later_is_fetched_again(publisher, tmp_path, patience):
    (tmp_path / "file.bin").write_bytes(CONTENT[:-1] + b"!")
    assert fetch(publisher.download(), tmp_path, progress=False, patience=patience).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("change", "message"),
    [({"url": "file:///etc/passwd"}, "https://"), ({"bytes": 0}, "bytes must be"), ({"md5": "abc"}, "32 hexadecimal")],
)
def test_downloads_are_checked_when_made(publisher, change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(publisher.download(), **change)


def test_a_data_set_that_was_got_can_be_loaded(publisher, tmp_path, monkeypatch):
    write_cifar10(tmp_path / "published", archive=True)
    publisher.content = (tmp_path / "published" / "cifar-10-binary.tar.gz").read_bytes()
    download = dataclasses.replace(
        SOURCES["cifar10"].downloads[0],
        url=publisher.download().url,
        bytes=len(publisher.content),
        md5=hashlib.md5(publisher.content).hexdigest(),
    )
    source = dataclasses.replace(SOURCES["cifar10"], downloads=(download,))
    monkeypatch.setattr("adaste.data.loading.SOURCES", MappingProxyType({"cifar10": source}))
    assert get("cifar10", tmp_path / "data", progress=False) == tmp_path / "data" / "cifar-10-binary.tar.gz"
    assert len(load("cifar10", tmp_path / "data").train) == 200


def test_several_files_go_into_a_folder_of_their_own(publisher, tmp_path, monkeypatch):
    downloads = tuple(publisher.download(f"mnist/{name}") for name in ("a", "b"))
    source = dataclasses.replace(SOURCES["mnist"], downloads=downloads)
    monkeypatch.setattr("adaste.data.loading.SOURCES", MappingProxyType({"mnist": source}))
    assert get("mnist", tmp_path) == tmp_path / "mnist"
    assert names(tmp_path / "mnist") == ["a", "b"]


@pytest.mark.parametrize("name", ["digits", "folder"])
def test_what_cannot_be_downloaded_says_what_it_needs(tmp_path, name):
    with pytest.raises(DataError, match=f"{name} is not downloaded: it needs"):
        get(name, tmp_path)


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_what_is_downloaded_is_what_is_looked_for(source):
    for download in source.downloads:
        places = [place for layout in source.layouts for place in layout.roots]
        archives = [archive.name for layout in source.layouts for archive in layout.archives]
        assert download.path in archives or download.path.split("/")[0] in places
        assert download.url.endswith(download.path.split("/")[-1])
