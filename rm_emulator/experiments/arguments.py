"""Arguments of `run` in Python in place of text: dicts, and classes in place of names."""

from __future__ import annotations

import hashlib
import inspect
import re
import uuid
from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final

from rm_emulator.issues import InvalidInput, Issue
from rm_emulator.plugins import GROUP
from rm_emulator.scenario.load import Loaded
from schedulers.core.placer import Placer, placers
from schedulers.core.policy import Policy, policies
from schedulers.core.predictor import Predictor, predictors
from schedulers.core.registry import Registry

_REGISTRIES: Final[tuple[tuple[type, Registry[Any]], ...]] = (
    (Policy, policies),
    (Predictor, predictors),
    (Placer, placers),
)


def plain(value: Any) -> Any:
    """A value in the form of a YAML file: tuples as lists, paths as text, a class as its registered name.

    An unregistered policy, predictor or placer gets the name of its class, `my_policy`.
    Raises InvalidInput for any other class.
    """
    try:
        return _plain(value)
    except RecursionError:
        raise InvalidInput([Issue("", f"{type(value).__name__} that contains itself: expected plain data")]) from None


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, type):
        return _name(value)
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return value.tolist()
    return value


def _name(cls: type) -> str:
    registry = next((registry for base, registry in _REGISTRIES if issubclass(cls, base)), None)
    if registry is None:
        raise InvalidInput([Issue("", f"{cls.__name__} is not a policy, a predictor or a placer")])
    known = next((entry.name for entry in registry if entry.cls is cls), None)
    if known is not None:
        return known
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()
    registry.register(name, source="given by a Python program")(cls)
    return name


def entries(given: Iterable[Any]) -> list[Any]:
    """Entries of `spec.policies` from classes, names, and mappings as the file has them."""
    return [plain(each) if isinstance(each, Mapping) else {"kind": plain(each)} for each in given]


def local_classes(loaded: Loaded) -> list[type]:
    """Classes named by the scenario that another process would not find: from no package, no plug-in."""
    installed = {point.module.partition(".")[0] for point in entry_points(group=GROUP)}
    kinds: dict[type, None] = {}
    for point in loaded.points:
        for policy in point.scenario.spec.policies:
            parts = ((policies, policy.settings), (predictors, policy.predictor), (placers, policy.placement))
            kinds |= {registry.entry(part["kind"]).cls: None for registry, part in parts if part}
    return [cls for cls in kinds if not _is_found(cls, installed)]


def _is_found(cls: type, installed: Iterable[str]) -> bool:
    package = cls.__module__.partition(".")[0]
    return package == "schedulers" or package.startswith("rm_emulator") or package in installed


def allowed_jobs(jobs: int | None, local: Iterable[type], engine: str | None) -> int | None:
    """How many processes there may be. Raises InvalidInput where others are asked for and cannot be."""
    names = [cls.__name__ for cls in local]
    if not names or (jobs == 1 and engine is None):
        return jobs
    if jobs is None and engine is None:
        return 1
    message = f"other processes do not find {', '.join(names)}, a class of this program"
    given = f"jobs={jobs}" if engine is None else f"engine={engine!r}"
    remedy = f"leave {given.partition('=')[0]}= out, or put the class into a file and name it in plugins="
    raise InvalidInput([Issue(given, f"{message}: {remedy}")])


def digest(cls: type) -> str:
    """The hash of the file of a class; a new hash each time for a class without a file (a notebook)."""
    try:
        return hashlib.sha256(Path(inspect.getsourcefile(cls) or "").read_bytes()).hexdigest()
    except (OSError, TypeError):
        return uuid.uuid4().hex
