"""Networks and trees by name: those that come with the program, and those that a shell has read from files."""

from __future__ import annotations

import pkgutil
from typing import Any, Final

from schedulers.core.errors import InvalidParameters, InvalidTree, InvalidWeights
from schedulers.learned import tree
from schedulers.learned.tree import Trees
from schedulers.learned.weights import Architecture, Weights, unpack

#: What files of weights, and of trees, are called behind their name.
SUFFIX: Final = ".safetensors"
TREE: Final = ".yaml"
#: Come with the program: Decima's for the mean JCT, where executors stay with jobs and where containers end with tasks,
#: and for the makespan, LACHESIS's; Decima's as trees.
SHIPPED: Final = ("decima", "containers", "makespan", "lachesis")
SHIPPED_TREES: Final = ("distilled",)
_SHIPPED: Final = {name + SUFFIX for name in SHIPPED} | {name + TREE for name in SHIPPED_TREES}

#: By name with what is behind it: the file, and what it held.
_SHELF: Final[dict[str, tuple[str, Any]]] = {}


def put(name: str, data: bytes, file: str, suffix: str = SUFFIX) -> None:
    """Make what a file holds known by name; again the same file replaces it. Raises InvalidWeights or InvalidTree."""
    what, wrong = ("weights", InvalidWeights) if suffix == SUFFIX else ("trees", InvalidTree)
    other = "the program" if name + suffix in _SHIPPED else _SHELF.get(name + suffix, (file,))[0]
    if other != file:
        raise wrong(f"{file}: there are {what} '{name}' already, from {other}; give the file another name")
    _SHELF[name + suffix] = (file, _read(data, file, suffix))


def take(name: str, kind: str = Architecture.kind) -> Weights:
    """Raises InvalidParameters for weights that nobody has put there, and for those of another kind of network."""
    found: Weights = _taken(name, SUFFIX, "weights")
    if (other := found.architecture.kind) != kind:
        raise InvalidParameters(f"weights '{name}' are a network of '{other}'; '{kind}' needs one of its own")
    return found


def trees(name: str) -> Trees:
    """Raises InvalidParameters for trees that nobody has put there."""
    found: Trees = _taken(name, TREE, "trees")
    return found


def _taken(name: str, suffix: str, what: str) -> Any:
    full = name + suffix
    if full in _SHIPPED and full not in _SHELF:
        file = f"trained/{full}"
        data = pkgutil.get_data("schedulers.learned", file)  # part of the program, as its modules are
        assert data is not None
        _SHELF[full] = (file, _read(data, file, suffix))
    if full not in _SHELF:
        known = ", ".join(sorted(each.removesuffix(suffix) for each in _SHIPPED | _SHELF.keys() if suffix in each))
        raise InvalidParameters(f"no {what} '{name}' (known: {known}); name the file {full} among the plug-ins")
    return _SHELF[full][1]


def _read(data: bytes, file: str, suffix: str) -> Any:
    return unpack(data, file) if suffix == SUFFIX else tree.read(data, file)
