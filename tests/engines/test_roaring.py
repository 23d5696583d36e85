"""Bitmaps by the format's specification: read back by a reader that is written for the test alone."""

import struct

import numpy as np
from hypothesis import given, settings, strategies as st

from hive_agents.engines.opensearch_lanes import roaring


def numbers(data: bytes) -> list[int]:
    cookie, size = struct.unpack_from("<II", data)
    assert cookie == 12346
    found = []
    for block in range(size):
        key, less = struct.unpack_from("<HH", data, 8 + 4 * block)
        (at,) = struct.unpack_from("<I", data, 8 + 4 * size + 4 * block)
        if less + 1 <= 4096:
            low = list(struct.unpack_from(f"<{less + 1}H", data, at))
        else:
            words = struct.unpack_from("<1024Q", data, at)
            low = [64 * place + bit for place, word in enumerate(words) for bit in range(64) if word >> bit & 1]
            assert len(low) == less + 1
        found += [key << 16 | one for one in low]
    return found


@settings(max_examples=30)
@given(st.integers(0, 200_000), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_every_number_comes_back(size: int, share: float, seed: int) -> None:
    mask = np.random.default_rng(seed).random(size) < share
    assert numbers(roaring(mask)) == mask.nonzero()[0].tolist()


def test_blocks_that_are_empty_full_and_at_the_limit() -> None:
    mask = np.zeros(5 << 16, np.bool_)
    mask[1 << 16 : 2 << 16] = True
    mask[(3 << 16) : (3 << 16) + 4096] = True
    mask[(4 << 16) : (4 << 16) + 4097] = True
    assert numbers(roaring(mask)) == mask.nonzero()[0].tolist()
