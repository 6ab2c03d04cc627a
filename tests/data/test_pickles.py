"""A pickle is read as plain data: nothing it says is run."""

import os
import pickle
import struct
import subprocess

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaste.data import DataError
from adaste.data.cifar import read_dictionary


def test_pickled_bytes_are_decoded_in_one_way_only(tmp_path):
    (tmp_path / "file").write_bytes(pickle.dumps({b"data": b"\xff\x00"}, protocol=2))
    assert read_dictionary(tmp_path / "file") == {"data": b"\xff\x00"}
    (tmp_path / "file").write_bytes(b"\x80\x02}U\x01xc_codecs\nencode\nU\x01yU\x05rot13\x86Rs.")
    with pytest.raises(DataError, match="text encoded as 'rot13'"):
        read_dictionary(tmp_path / "file")


class _Command:
    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


@pytest.mark.parametrize(
    "command",
    [
        _Command(os.system, "touch escaped"),
        _Command(subprocess.getoutput, "touch escaped"),
        _Command(eval, "open('escaped', 'w')"),
        _Command(getattr, [], "append"),
        _Command(np.save, "escaped", np.zeros(1)),
        _Command(np.array, [1]),
        np.float64(1.0),
    ],
)
def test_a_pickle_runs_nothing(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    for protocol in range(6):
        (tmp_path / "file").write_bytes(pickle.dumps({"data": command}, protocol=protocol))
        with pytest.raises(DataError, match="which is not plain data"):
            read_dictionary(tmp_path / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("name", [b"cnumpy\nndarray\n", b"cnumpy\ndtype\n", b"c_codecs\nencode\n"])
def test_a_pickle_cannot_change_the_reader(tmp_path, name):
    (tmp_path / "file").write_bytes(b"\x80\x02" + name + b"}U\x01xK\x01sb.")
    with pytest.raises(DataError):
        read_dictionary(tmp_path / "file")


def test_pickles_of_python_2_are_read_as_they_were_published(tmp_path):
    """The opcodes of the published files: strings of bytes without an encoding, and the old path inside numpy."""
    values = bytes(range(256)) * 12
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01K\x01M\x00\x0c\x86"
        b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
        b"T" + struct.pack("<i", len(values)) + values + b"tb"
    )
    (tmp_path / "file").write_bytes(b"\x80\x02}(U\x04data" + array + b"U\x06labels]K\x07au.")
    content = read_dictionary(tmp_path / "file")
    assert content["labels"] == [7]
    assert content["data"].shape == (1, 3072) and content["data"].tobytes() == values


@settings(deadline=None, derandomize=True, max_examples=150)
@given(st.binary(max_size=60), st.integers(0, 400), st.booleans())
def test_damaged_pickles_give_one_kind_of_error(tmp_path_factory, noise, place, insert):
    good = pickle.dumps({"data": np.zeros((1, 30), np.uint8), "labels": [1, 2], "name": b"x"}, protocol=2)
    path = tmp_path_factory.mktemp("pickle") / "file"
    path.write_bytes(good[:place] + noise + good[place if insert else place + len(noise) :])
    try:
        content = read_dictionary(path)
    except DataError:
        return
    assert isinstance(content, dict)
