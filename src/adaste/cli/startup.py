"""A quick and safe start where a compiler is loaded. Nothing here may import torch: that is what comes afterwards."""

import contextlib
import gc
import getpass
import importlib.util
import os
import sys
import tempfile
import time
from pathlib import Path

SELDOM = 200_000

LINKING = 60.0
"""Seconds after which a linker that has not written anything is no longer at work."""

CACHE = "XDG_CACHE_HOME"
"""Where a user's caches are, if not in ~/.cache."""


def collect_seldom() -> None:
    """Let Python look for garbage less often than after every 700 new objects.

    Importing torch's compiler and tracing a step make millions of objects, none of them garbage, and looking through
    them again and again is a part of the start that one notices.
    """
    gc.set_threshold(SELDOM, 20, 100)


def forget_unlinked() -> None:
    """Remove the empty libraries that killed linkers have left in torch's cache of compiled code.

    Torch has them written under their final names and loads whatever is there: after one Ctrl-C at the wrong moment
    every later start would fail.
    """
    for library in _cache_of_torch().glob("*/*.so"):
        with contextlib.suppress(OSError):
            known = library.stat()
            if known.st_size == 0 and time.time() - known.st_mtime > LINKING:
                library.unlink()


def _cache_of_torch() -> Path:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in some containers
        user = f"uid_{os.getuid()}"
    return Path(os.environ.get("TORCHINDUCTOR_CACHE_DIR") or Path(tempfile.gettempdir()) / f"torchinductor_{user}")


def keep_byte_code(package: str = "torch") -> None:
    """Give Python a place for byte code where `package` has none.

    In containers it may be forbidden to write any (PYTHONDONTWRITEBYTECODE), or the folder be read-only. Then the 2,400
    modules of torch and its compiler are compiled anew at every start, which takes longer than all the rest of it. The
    place is a cache of the user's own, for this process and its children; where byte code is, nothing changes.
    """
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None or Path(importlib.util.cache_from_source(found.origin)).exists():
        return
    folder = Path(os.environ.get(CACHE) or Path.home() / ".cache") / "adaste" / "byte-code"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_uid != os.getuid():
            return  # whoever owns the folder could have us run what they like
    except (OSError, RuntimeError):
        return  # no home, or one that cannot be written to: the start is slow, and that is all
    sys.pycache_prefix, sys.dont_write_bytecode = str(folder), False
    os.environ["PYTHONPYCACHEPREFIX"] = str(folder)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
