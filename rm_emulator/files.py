"""Files that are there as a whole or not at all: written under another name in the same folder, then renamed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path beside `path` to write to; it takes the place of `path` when the block succeeds, else it is removed.

    An OSError names `path`, where Python names no file (a full disk) or the one beside.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield beside
        beside.replace(path)
    except OSError as error:
        if error.filename in (None, str(beside), beside):
            error.filename, error.filename2 = str(path), None
        raise
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def write_file(path: Path, content: str | bytes, *, sync: bool = False) -> None:
    """Write a whole file, or nothing. sync: it is on the disk before it takes its name."""
    with replacing(path) as beside, beside.open("wb") as stream:
        stream.write(content if isinstance(content, bytes) else content.encode())
        if sync:
            stream.flush()
            os.fsync(stream.fileno())
