"""Plug-ins from outside the tree, such as policies, trace formats and charts: entry points and files (`FILE.py`).

Files are named by `--plugin`, or by the scenario itself.

A plug-in is a module that registers its classes on import, or the weights of a network (`FILE.safetensors`). Shells
and worker processes load plug-ins; the pure core never looks for any.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Iterable
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

from rm_emulator.files import sha256_of
from rm_emulator.issues import InvalidInput, Issue
from rm_emulator.program import prints_apart

GROUP: Final = "rm_emulator.plugins"


def load_plugins(files: Iterable[str | Path] = ()) -> list[str]:
    """Import installed plug-ins and then the given files; returns the absolute paths of the files.

    Raises InvalidInput with plug-in, line and error for a plug-in that cannot be imported.
    """
    with prints_apart():
        _load_installed()
        return [str(_load_file(Path(file))) for file in files]


@cache  # to look through all installed packages takes 5 ms, a sixth of a tiny cell
def _load_installed() -> None:
    for point in entry_points(group=GROUP):
        try:
            point.load()
        except (Exception, SystemExit) as error:
            raise InvalidInput([Issue(f"plug-in {point.name} ({point.value})", _what(error))]) from error


def hashes(files: Iterable[str | Path]) -> dict[str, str]:
    """The sha256 of each file."""
    return {str(file): sha256_of(Path(file)) for file in files}


def _load_file(file: Path) -> Path:
    if not file.is_file():  # before its links are followed, which may lead in a circle
        raise InvalidInput([Issue(str(file), "no such plug-in file")])
    path = file.resolve()
    if path.suffix == ".safetensors":
        from schedulers.learned import model_store  # numpy and all networks, for a file of weights alone

        model_store.register(path.stem, path.read_bytes(), str(path))
        return path
    name = f"rm_emulator_plugin_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return path
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InvalidInput([Issue(str(file), "neither Python (FILE.py) nor weights (FILE.safetensors)")])
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise InvalidInput(
            [Issue(str(file), f"plug-in cannot be loaded: {_what(error)}", _line(error, path))]
        ) from error
    return path


def _what(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _line(error: BaseException, path: Path) -> int | None:
    """The deepest line of the plug-in itself in the error's traceback."""
    if isinstance(error, SyntaxError):
        return error.lineno
    line, at = None, error.__traceback__
    while at is not None:
        if at.tb_frame.f_code.co_filename == str(path):
            line = at.tb_lineno
        at = at.tb_next
    return line
