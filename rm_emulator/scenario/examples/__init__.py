"""The packaged example scenarios: listed by their first comment line, copied to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rm_emulator.files import write_file
from rm_emulator.issues import InvalidInput, Issue, did_you_mean
from schedulers.core.errors import nearest

FOLDER: Final = Path(__file__).parent


def summaries() -> list[tuple[str, str]]:
    """(name, first comment line) of each example, by name."""
    return [(path.stem, _first_line(path)) for path in sorted(FOLDER.glob("*.yaml"))]


def _first_line(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.readline().lstrip("# ").strip()


def files(name: str) -> list[Path]:
    """The example's scenario and the files read by the scenario. Raises InvalidInput for an unknown name."""
    names = [known for known, _ in summaries()]
    asked, name = name, name.removesuffix(".yaml")
    if name not in names:
        message = f"no such example (examples: {', '.join(names)})"
        raise InvalidInput([Issue(asked, message, hint=did_you_mean(nearest(name, names)))])
    return sorted((p for p in FOLDER.glob(f"{name}.*")), key=lambda p: (p.suffix != ".yaml", p.name))


def copy(name: str, folder: Path) -> list[Path]:
    """Copy an example into `folder`, made if missing; returns the new files.

    Raises InvalidInput, and copies nothing, when any of the files exists already.
    """
    sources = files(name)
    targets = [folder / source.name for source in sources]
    taken = [target for target in targets if target.exists()]
    if taken:
        raise InvalidInput([Issue(str(t), "is there already: remove it, or choose another DIR") for t in taken])
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for source, target in zip(sources, targets, strict=True):
            write_file(target, source.read_bytes())
    except OSError as error:
        raise InvalidInput([Issue(str(folder), f"cannot be written: {error.strerror}")]) from None
    return targets
