"""Bytes that came from elsewhere, read as records: whatever is wrong with them is one error.

msgspec skips what it does not know, a field of a newer version, by recursion; deep nesting there is a RecursionError,
which is no DecodeError, and would pass every handler that expects one. Next: link/codec.py, for frames.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")


class Reader(Generic[T]):
    """Reads one kind of record. Raises msgspec.DecodeError (a ValueError), and nothing else."""

    def __init__(self, decode: Callable[[bytes], T]) -> None:
        self._decode = decode

    def __call__(self, content: bytes) -> T:
        try:
            return self._decode(content)
        except RecursionError:
            # Not `from`: a traceback of a thousand levels helps nobody.
            raise msgspec.DecodeError("it is nested too deeply") from None
        except UnicodeDecodeError as error:
            raise msgspec.DecodeError("a text in it is not UTF-8") from error


def read_msgpack(content: bytes, kind: type[T]) -> T:
    """One record of a kind that is known only now. Raises msgspec.DecodeError."""
    decode: Callable[[bytes], T] = partial(msgspec.msgpack.decode, type=kind)
    return Reader(decode)(content)


def msgpack_reader(kind: type[T]) -> Reader[T]:
    return Reader(msgspec.msgpack.Decoder(kind).decode)


def json_reader(kind: type[T]) -> Reader[T]:
    return Reader(msgspec.json.Decoder(kind).decode)
