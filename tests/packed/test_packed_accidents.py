"""Thousands of damaged files: each is refused with a ValueError, or is none."""

import random

import numpy as np
import pytest
import torch

from adaste.packed.format import from_bytes, to_bytes
from adaste.packed.torch_module import PackedNetwork
from support.packed_files import taken_apart
from support.packed_networks import every_operation, tiny_graph

TINY, WHOLE = to_bytes(tiny_graph()), to_bytes(every_operation())


def damaged(content: bytes, source: random.Random) -> bytes:
    """Some accident with bytes."""
    place, length = source.randrange(len(content)), source.choice([1, 1, 2, 8, 64])
    accidents = [
        lambda: content[:place],
        lambda: content[:place] + content[place + length :],
        lambda: content[:place] + content[place : place + length] + content[place:],
        lambda: content[:place] + source.randbytes(length) + content[place + length :],
        lambda: content[:place] + bytes([content[place] ^ 1 << source.randrange(8)]) + content[place + 1 :],
        lambda: content[:place] + bytes(length) + content[place + length :],
    ]
    return source.choice(accidents)()


def test_accidents_with_bytes_are_noticed_or_change_nothing() -> None:
    source = random.Random(0)
    for number in range(4000):
        mutated = damaged(TINY if number % 2 else WHOLE, source)
        try:
            graph = from_bytes(mutated)
        except ValueError:
            continue
        assert to_bytes(graph) in (TINY, WHOLE)


def test_every_single_flipped_bit_is_noticed() -> None:
    for place in range(8 * len(TINY)):
        content = bytearray(TINY)
        content[place // 8] ^= 1 << place % 8
        with pytest.raises(ValueError):
            from_bytes(bytes(content))


STRANGE = [
    *(None, True, 0, 1, 2, 3, -1, 2**27, 2**40, 2**200, 0.5, 1e300),
    *("", "t1", "t2.scale", "binary", "input", "x" * 1000),
    *([], {}, [1, 1], ["input"], [2**26, 1], {"op": "relu"}),
]


def changed_somewhere(plain: object, source: random.Random) -> object:
    """JSON with one value replaced, removed or doubled."""
    if isinstance(plain, dict | list) and plain and source.random() < 0.9:
        made = dict(plain) if isinstance(plain, dict) else list(plain)
        key = source.choice(list(made) if isinstance(made, dict) else range(len(made)))
        action = source.random()
        if action < 0.1:
            del made[key]
        elif action < 0.2 and isinstance(made, list):
            made.insert(key, made[key])
        else:
            made[key] = changed_somewhere(made[key], source)
        return made
    return source.choice(STRANGE)


@pytest.mark.slow
def test_strange_descriptions_are_refused_or_can_be_run() -> None:
    source = random.Random(1)
    ran = 0
    for _ in range(3000):
        parts = taken_apart(WHOLE)
        if source.random() < 0.7:
            parts.facts = changed_somewhere(parts.facts, source)
        else:
            parts.tensors = changed_somewhere(parts.tensors, source)
            if not isinstance(parts.tensors, dict):
                continue
        try:
            graph = from_bytes(parts.bytes())
        except ValueError:
            continue
        if max(np.prod(shape) for shape in graph.shapes().values()) < 10**5:
            ran += 1
            with torch.no_grad():
                assert PackedNetwork(graph)(torch.zeros(1, *graph.input_shape)).shape == (1, graph.outputs)
    assert ran > 50
