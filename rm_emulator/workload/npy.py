"""NumPy's .npy files with object arrays, without running any of their content.

An object array in a .npy file is a pickle, and a pickle is a program. The unpickler here knows only the four names in
the pickle of an array (`numpy.core.multiarray._reconstruct`, `numpy.ndarray`, `numpy.dtype`, and `_codecs.encode`, used
by Python 3 to write a byte string in an old version of the format), and gives each name a stand-in of our own that at
most remembers its arguments: no code of NumPy's runs on the file's data either. Any other name is refused.
"""

from __future__ import annotations

import io
import pickle
import tokenize
from math import prod
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from rm_emulator.workload.tables import one, opened

_MODULES: Final = ("numpy.core.multiarray", "numpy._core.multiarray")
_MAX_BYTES: Final = 256 * 2**20


class UnsafePickle(pickle.UnpicklingError):
    """A pickle with more than arrays, lists, dicts, numbers and text."""


class _Dtype:
    """Stands in for `numpy.dtype`: remembers its name."""

    __slots__ = ("name",)

    def __init__(self, name: object = "", *_: object) -> None:
        self.name = name

    def __setstate__(self, state: object) -> None:
        """An object type has no state worth keeping."""


class _Array:
    """Stands in for `numpy.ndarray`: remembers shape and elements."""

    __slots__ = ("elements", "shape")

    def __init__(self) -> None:
        self.shape: object = None
        self.elements: object = None

    def __setstate__(self, state: object) -> None:
        if not (isinstance(state, tuple) and len(state) == 5 and isinstance(state[2], _Dtype)):
            raise UnsafePickle("an array whose state is not NumPy's")
        _, self.shape, dtype, _, self.elements = state
        if dtype.name != "O8" or not isinstance(self.elements, list):
            raise UnsafePickle(f"an array of type {dtype.name!r} inside a pickle (only object arrays are read)")


class _Function:
    """Stands in for a function: returns the same class's instance for all arguments."""

    __slots__ = ("_gives",)

    def __init__(self, gives: type[_Array | bytes]) -> None:
        self._gives = gives

    def __call__(self, *_: object) -> object:
        return self._gives()

    def __setstate__(self, state: object) -> NoReturn:
        raise UnsafePickle("state for a function")


class _Unpickler(pickle.Unpickler):
    """Finds the four names above and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if module in _MODULES and name == "_reconstruct":
            return _Function(_Array)
        if module == "numpy" and name in ("ndarray", "dtype"):
            return _Array if name == "ndarray" else _Dtype
        if (module, name) == ("_codecs", "encode"):
            return _Function(bytes)
        raise UnsafePickle(f"it asks for '{module}.{name}'")


def read_object(path: Path) -> Any:
    """The single Python object (of dicts, lists, numbers, text) in a .npy file of shape ().

    Raises TraceError for a missing or damaged file, for other content, and for a pickle that asks for anything but
    NumPy's own array: the pickle is refused without running any part.
    """
    stream, shape, _, dtype = _opened(path)
    if not dtype.hasobject or shape != ():
        raise one(path, f"an array of shape {shape} and type {dtype} (one object is needed)")
    try:
        array = _Unpickler(stream, encoding="latin1").load()
    except UnsafePickle as error:
        raise one(path, f"refused: this pickle is not plain data ({error})") from None
    except (EOFError, pickle.UnpicklingError) as error:
        raise one(path, f"truncated or damaged pickle ({error or 'it ends too early'}): fetch it again") from None
    except Exception as error:  # a damaged pickle can fail in any way at all
        raise one(path, f"damaged pickle ({type(error).__name__}: {error}): fetch it again") from None
    if not (isinstance(array, _Array) and array.shape == () and _single(array.elements)):
        raise one(path, "the pickle does not hold one NumPy object array of shape ()")
    return array.elements[0]  # type: ignore[index]  # a list of one, as just checked


def _single(elements: object) -> bool:
    return isinstance(elements, list) and len(elements) == 1


def read_numbers(path: Path) -> NDArray[np.float64]:
    """A numeric .npy array as floats. Raises TraceError for a missing or damaged file, or for objects."""
    stream, shape, fortran, dtype = _opened(path)
    if dtype.hasobject or dtype.kind not in "biuf":
        raise one(path, f"an array of {dtype} (numbers are needed)")
    data = stream.read()
    if len(data) != prod(shape) * dtype.itemsize:
        raise one(
            path,
            f"{len(data):,} bytes of data, but shape {shape} of {dtype} needs {prod(shape) * dtype.itemsize:,}: "
            "truncated or damaged, fetch it again",
        )
    order = "F" if fortran else "C"
    return np.frombuffer(data, dtype=dtype).reshape(shape, order=order).astype(np.float64)  # type: ignore[call-overload, no-any-return]


def _opened(path: Path) -> tuple[io.BytesIO, tuple[int, ...], bool, np.dtype[Any]]:
    """The stream after the header, and the header's shape, Fortran order and type."""
    with opened(path) as file:
        if path.stat().st_size > _MAX_BYTES:
            raise one(path, f"{path.stat().st_size:,} bytes (files of profiles are below {_MAX_BYTES:,})")
        stream = io.BytesIO(file.read())
    try:
        version = npy_format.read_magic(stream)
        read = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
        shape, fortran, dtype = read(stream)
    except (ValueError, SyntaxError, tokenize.TokenError) as error:
        raise one(path, f"not a .npy file ({str(error).splitlines()[0]})") from None
    return stream, shape, fortran, dtype
