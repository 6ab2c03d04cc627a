"""A quicker start of programs that load a compiler. Nothing here may import torch: that is what comes afterwards."""

import gc
import importlib.util
import os
import sys
from pathlib import Path

SELDOM = 200_000

CACHE = "XDG_CACHE_HOME"
"""Where a user's caches are, if not in ~/.cache."""


def collect_seldom() -> None:
    """Let Python look for garbage less often than after every 700 new objects.

    Importing torch's compiler and tracing a step make millions of objects, none of them garbage, and looking through
    them again and again is a part of the start that one notices.
    """
    gc.set_threshold(SELDOM, 20, 100)


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
