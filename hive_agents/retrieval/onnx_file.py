"""As much of the ONNX file format (protocol buffers) as rewriting one known graph needs.

The `onnx` package would do it, but weighs more than everything else that embedding needs.
Source: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto3 for the field numbers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FLOAT, INT64 = 1, 7
_DTYPES = {1: np.float32, 2: np.uint8, 3: np.int8, 6: np.int32, 7: np.int64, 9: np.bool_}
_CODES = {np.dtype(dtype): code for code, dtype in _DTYPES.items()}
_IR_VERSION = 8

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

Attribute = int | float | list[int]
Shape = Sequence[int | str]


@dataclass(frozen=True, slots=True)
class Node:
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def read_graph(model: bytes) -> tuple[list[Node], dict[str, NDArray[Any]]]:
    """Nodes in order and the constants that the file holds as raw data; the arrays share memory with `model`.

    Raises: ValueError if it is no ONNX model.
    """
    nodes: list[Node] = []
    arrays: dict[str, NDArray[Any]] = {}
    try:
        for field, value in _fields(_first(memoryview(model), 7)):
            if field == 1:
                nodes.append(_node(value))
            elif field == 5:
                arrays.update(_tensor(value))
    except (IndexError, TypeError, KeyError, struct.error) as error:
        raise ValueError(f"not an ONNX model: {error!r}") from error
    return nodes, arrays


def write_model(
    nodes: Iterable[tuple[str, Sequence[str], Sequence[str], str, Mapping[str, Attribute]]],
    constants: Mapping[str, NDArray[Any]],
    *,
    inputs: Mapping[str, tuple[int, Shape]],
    outputs: Mapping[str, tuple[int, Shape]],
    opsets: Mapping[str, int],
) -> bytes:
    """A model file; a node is (operator, inputs, outputs, domain, attributes)."""
    graph = [
        *(_block(1, _write_node(*node)) for node in nodes),
        _block(2, b"graph"),
        *(_block(5, _write_tensor(name, array)) for name, array in constants.items()),
        *(_block(11, _write_value(name, *kind)) for name, kind in inputs.items()),
        *(_block(12, _write_value(name, *kind)) for name, kind in outputs.items()),
    ]
    versions = (_block(8, _block(1, domain.encode()) + _integer(2, version)) for domain, version in opsets.items())
    return b"".join([_integer(1, _IR_VERSION), *versions, _block(7, b"".join(graph))])


def _fields(message: memoryview) -> Iterator[tuple[int, Any]]:
    position = 0
    while position < len(message):
        key, position = _read_varint(message, position)
        field, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, position = _read_varint(message, position)
            yield field, value
            continue
        if wire == _BYTES:
            size, position = _read_varint(message, position)
        elif wire in (_FIXED32, _FIXED64):
            size = 4 if wire == _FIXED32 else 8
        else:
            raise IndexError(f"wire type {wire} at byte {position}")
        if position + size > len(message):
            raise IndexError(f"field {field} ends after the file")
        yield field, message[position : position + size]
        position += size


def _first(message: memoryview, wanted: int) -> memoryview:
    for field, value in _fields(message):
        if field == wanted and isinstance(value, memoryview):
            return value
    raise IndexError(f"no field {wanted}")


def _read_varint(message: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        position += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, position


def _node(message: memoryview) -> Node:
    op, inputs, outputs = "", [], []
    for field, value in _fields(message):
        if field == 1:
            inputs.append(str(value, "utf-8"))
        elif field == 2:
            outputs.append(str(value, "utf-8"))
        elif field == 4:
            op = str(value, "utf-8")
    return Node(op, tuple(inputs), tuple(outputs))


def _tensor(message: memoryview) -> dict[str, NDArray[Any]]:
    name, code, dims = "", 0, []
    raw: memoryview | None = None
    for field, value in _fields(message):
        if field == 1:
            dims += [value] if isinstance(value, int) else list(_varints(value))
        elif field == 2:
            code = value
        elif field == 8:
            name = str(value, "utf-8")
        elif field == 9:
            raw = value
    if raw is None or code not in _DTYPES:
        return {}
    return {name: np.frombuffer(raw, _DTYPES[code]).reshape(dims)}


def _varints(message: memoryview) -> Iterator[int]:
    position = 0
    while position < len(message):
        value, position = _read_varint(message, position)
        yield value


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _integer(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _block(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | _BYTES) + _varint(len(content)) + content


def _write_node(
    op: str, inputs: Sequence[str], outputs: Sequence[str], domain: str, attributes: Mapping[str, Attribute]
) -> bytes:
    return b"".join(
        [
            *(_block(1, name.encode()) for name in inputs),
            *(_block(2, name.encode()) for name in outputs),
            _block(4, op.encode()),
            *(_block(5, _block(1, name.encode()) + _write_attribute(value)) for name, value in attributes.items()),
            _block(7, domain.encode()),
        ]
    )


def _write_attribute(value: Attribute) -> bytes:
    """The value and the type tag of it: 1 float, 2 int, 7 ints."""
    if isinstance(value, float):
        return _varint(2 << 3 | _FIXED32) + struct.pack("<f", value) + _integer(20, 1)
    if isinstance(value, int):
        return _integer(3, value & (1 << 64) - 1) + _integer(20, 2)
    return b"".join(_integer(8, item) for item in value) + _integer(20, 7)


def _write_tensor(name: str, array: NDArray[Any]) -> bytes:
    return b"".join(
        [
            *(_integer(1, size) for size in array.shape),
            _integer(2, _CODES[array.dtype]),
            _block(8, name.encode()),
            _block(9, array.tobytes()),
        ]
    )


def _write_value(name: str, element: int, shape: Shape) -> bytes:
    sizes = (_integer(1, size) if isinstance(size, int) else _block(2, size.encode()) for size in shape)
    tensor = _integer(1, element) + _block(2, b"".join(_block(1, size) for size in sizes))
    return _block(1, name.encode()) + _block(2, _block(1, tensor))
