"""Files present as a whole or not at all: written under another name in the same folder, then renamed.

And safe reading of YAML.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import yaml

#: A seventh of a log's or a trace's size for 2 % of a run's time; level 6 takes three times as long for a fifth less.
GZIP_LEVEL: Final = 2
#: What is packed into less than this many bytes is better kept as it is.
SMALL_GZIP: Final = 128 * 2**10
#: libyaml's composer recurses in C and takes the process with it when the stack ends.
_LEVELS: Final = 200


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path beside `path` to write to; takes the place of `path` when the block succeeds, and is removed otherwise.

    An OSError names `path`, where Python names no file (a full disk) or the path beside. Raises OSError for a pipe or a
    device, such as /dev/null: a file would take the place of the device itself.
    """
    if is_odd(path):
        raise OSError(errno.EINVAL, "is neither a file nor a folder, so no file takes its place", str(path))
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
    """Write a whole file, or nothing. sync: the content is on the disk before the file takes its name."""
    with replacing(path) as beside, beside.open("wb") as stream:
        stream.write(content if isinstance(content, bytes) else content.encode())
        if sync:
            stream.flush()
            os.fsync(stream.fileno())


def sha256_of(path: Path) -> str:
    """The sha256 of a file's bytes, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def unpack_small(packed: Path) -> None:
    """FILE takes the place of a small FILE.gz: any program reads plain files, and little room is lost."""
    if packed.stat().st_size < SMALL_GZIP:
        write_file(packed.with_suffix(""), gzip.decompress(packed.read_bytes()))
        packed.unlink()


def load_yaml(text: str) -> Any:
    """The first document as plain data. Raises yaml.YAMLError, for deep nesting too."""
    check_depth(text)
    return yaml.load(text, Loader=yaml.CSafeLoader)


def check_depth(text: str) -> None:
    """Raise yaml.MarkedYAMLError where YAML is nested too deeply to be loaded; other mistakes are the loader's."""
    depth = 0
    events = yaml.parse(text, Loader=yaml.CSafeLoader)
    while (event := _next(events)) is not None:
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _LEVELS:
                raise _too_deep(event.start_mark)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _next(events: Iterator[yaml.Event]) -> yaml.Event | None:
    try:
        return next(events, None)
    except yaml.YAMLError as error:
        # PyYAML 6.0.4 and later have a limit of their own, which its scanner may meet before we have counted so far.
        if "nesting depth" in str(getattr(error, "problem", "")):
            raise _too_deep(getattr(error, "problem_mark", None)) from None
        return None


def _too_deep(mark: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=f"nested too deeply (at most {_LEVELS} levels)", problem_mark=mark)


def is_odd(path: Path) -> bool:
    """Whether a path is neither file nor folder: a pipe or a device may never end, or never begin."""
    return path.exists() and not path.is_file() and not path.is_dir()
