"""A quicker start of programs that load a compiler."""

import gc

SELDOM = 200_000


def collect_seldom() -> None:
    """Let Python look for garbage less often than after every 700 new objects.

    Importing torch's compiler and tracing a step make millions of objects, none of them garbage, and looking through
    them again and again is a part of the start that one notices.
    """
    gc.set_threshold(SELDOM, 20, 100)
