"""Files that no trace format can read, for contract tests of formats."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Final

import msgspec

from rm_emulator.issues import TraceError

#: Files that no format can read.
_BROKEN: Final[dict[str, bytes]] = {
    "empty": b"",
    "zeros": b"\0" * 64,
    "words": b"this is not, a trace\nof,any\nkind\n",
    "cut gzip": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x4b",
}


def check_refusals(name: str, cls: Any) -> None:
    """Raise AssertionError unless the format refuses every unreadable file, and a missing file, with a message."""
    with tempfile.TemporaryDirectory() as folder:
        for what, content in _BROKEN.items():
            file = Path(folder) / "trace.csv"
            file.write_bytes(content)
            _unreadable(name, cls, file, what)
        _unreadable(name, cls, Path(folder) / "missing.csv", "missing")


def _unreadable(name: str, cls: Any, file: Path, what: str) -> None:
    said = ""
    try:
        cls.read(file, getattr(cls, "Params", msgspec.Struct)())
    except TraceError as error:
        said = str(error)
    except Exception as error:
        raise AssertionError(f"{name}: a file that is {what} gives {type(error).__name__}: {error}") from error
    assert said.strip(), f"{name} reads a file that is {what}, or refuses it without a word"
