"""Files that may come from anyone: what they seem to be, and how a message quotes what they say."""

from pathlib import Path
from types import MappingProxyType

ENOUGH = 32
"""Bytes from the start of a file that tell what it is."""

BEGINNINGS: MappingProxyType[bytes, str] = MappingProxyType(
    {
        b"\x89PNG\r\n\x1a\n": "a PNG",
        b"\xff\xd8\xff": "a JPEG",
        b"GIF8": "a GIF",
        b"BM": "a BMP",
        b"RIFF": "a RIFF file, such as WebP",
        b"%PDF-": "a PDF",
        b"PK\x03\x04": "a ZIP archive, such as a checkpoint of torch: use `adaste export`",
        b"\x80\x02": "a pickle, such as an old checkpoint of torch",
        b"\x1f\x8b": "a gzip archive",
        b"\x89HDF\r\n\x1a\n": "an HDF5 file",
        b"\x93NUMPY": "a numpy array",
        b"GGUF": "a GGUF file",
        b"version https://git-lfs": "a pointer of Git LFS: `git lfs pull` fetches the file",
    }
)
"""The same as in runtime/src/format/file_kind.cpp, which stands alone."""

ONNX_FIELDS = b"\x12\x1a\x22\x2a\x32\x3a\x42"
"""Fields of a model behind the version of its format, as protocol buffers begin them."""

TEXT = bytes(range(ord(" "), ord("~") + 1)) + b"\n\r\t"


def file_kind(content: bytes) -> str | None:
    """Return what a file is by its first bytes, "a PNG" for example, or None where these tell nothing."""
    begin = content[:ENOUGH]
    named = next((name for magic, name in BEGINNINGS.items() if begin.startswith(magic)), None)
    if named is not None:
        return named
    if len(begin) > 2 and begin[0] == 8 and 0 < begin[1] < 32 and begin[2] in ONNX_FIELDS:
        return "ONNX"
    return "text" if begin and all(byte in TEXT for byte in begin) else None


def kind_of_file(path: Path) -> str | None:
    """Return the same for the file at `path`."""
    with path.open("rb") as file:
        return file_kind(file.read(ENOUGH))


def printable(text: str) -> str:
    """Return `text` with escapes for what a terminal would obey."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
