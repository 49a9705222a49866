"""Books as bytes and back, whole: queues, marks, missed opportunities, in the order of arrival.

A pickle, because books are a graph and a scheduler restored from a snapshot must decide as the other would have to
the last tie; the reader makes nothing but books, whatever the bytes say.
"""

from __future__ import annotations

import pickle
from typing import Any, Final

from schedulers.core.errors import InvalidTransition

_OURS: Final = "schedulers.yarn."
_REBUILD: Final = ("msgspec._utils", "rebuild")


def dump(books: Any) -> bytes:
    """Raises nothing: books hold plain data and each other. The queues first, since applications refer to them.

    Equal books give equal bytes: written, read and written again, since a pickle tells equal values from the
    same value, a matter of the books' history.
    """
    return _write(load(_write(books)))


def _write(books: Any) -> bytes:
    return pickle.dumps((type(books), books.root, books.__dict__), protocol=5)


def load(data: bytes) -> Any:
    """The books written by `dump`. Raises InvalidTransition for other bytes, and for books of other versions."""
    try:
        kind, _, state = _Reader(_Bytes(data)).load()
        books = kind.__new__(kind)
        books.__dict__.update(state)
    except (pickle.UnpicklingError, AttributeError, TypeError, ValueError, IndexError, EOFError) as error:
        raise InvalidTransition(f"the books of a YARN scheduler cannot be read: {error}") from None
    return books


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Nothing but our own classes."""
        if module.startswith(_OURS) or (module, name) == _REBUILD:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} is no part of them")


class _Bytes:
    """The least source for an Unpickler."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        end = len(self._data) if size < 0 else self._at + size
        part, self._at = self._data[self._at : end], min(end, len(self._data))
        return part

    def readline(self) -> bytes:
        """Up to the end of a line."""
        end = self._data.find(b"\n", self._at)
        return self.read(-1 if end < 0 else end + 1 - self._at)
