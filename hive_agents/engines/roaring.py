"""Roaring bitmaps, the form in which engines take filters of many documents.

Source: the Roaring format specification, without run containers.
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

_COOKIE = 12346
_BLOCK = 1 << 16
_MOST_LISTED = 4096


def roaring(mask: NDArray[np.bool_]) -> bytes:
    """Return the positions at which `mask` is True, in the portable roaring format.

    >>> roaring(np.array([False, True, True])).hex()
    '3a30000001000000000001001000000001000200'
    """
    numbers = mask.nonzero()[0]
    keys, starts = np.unique(numbers >> 16, return_index=True)
    runs = np.split(numbers & (_BLOCK - 1), starts[1:])
    head, offsets, bodies = [struct.pack("<II", _COOKIE, len(keys))], [], []
    offset = 8 + 8 * len(keys)
    for key, low in zip(keys.tolist(), runs, strict=False):
        head.append(struct.pack("<HH", key, len(low) - 1))
        offsets.append(struct.pack("<I", offset))
        if len(low) <= _MOST_LISTED:
            body = low.astype("<u2").tobytes()
        else:
            bits = np.zeros(_BLOCK, np.bool_)
            bits[low] = True
            body = np.packbits(bits, bitorder="little").tobytes()
        bodies.append(body)
        offset += len(body)
    return b"".join((*head, *offsets, *bodies))
