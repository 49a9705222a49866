"""Networks and trees by name: those of the package, and those read by a shell from files."""

from __future__ import annotations

import pkgutil
from typing import Any, Final

from schedulers.core.errors import InvalidParameters, InvalidTree, InvalidWeights
from schedulers.learned import tree
from schedulers.learned.tree import Trees
from schedulers.learned.weights import Architecture, Weights, unpack

#: Suffixes of files of weights and of trees.
SUFFIX: Final = ".safetensors"
TREE: Final = ".yaml"
#: Weights in the package: Decima's for the mean JCT, where executors stay with jobs and where containers end with
#: tasks, Decima's for the makespan, and LACHESIS's; and Decima's as trees.
SHIPPED: Final = ("decima", "containers", "makespan", "lachesis")
SHIPPED_TREES: Final = ("distilled",)
_SHIPPED: Final = {name + SUFFIX for name in SHIPPED} | {name + TREE for name in SHIPPED_TREES}

#: By full name the file and its content.
_MODELS: Final[dict[str, tuple[str, Any]]] = {}


def register(name: str, data: bytes, file: str, suffix: str = SUFFIX) -> None:
    """Register a file's content by name; the same file may be read again. Raises InvalidWeights or InvalidTree."""
    what, wrong = ("weights", InvalidWeights) if suffix == SUFFIX else ("trees", InvalidTree)
    other = "the program" if name + suffix in _SHIPPED else _MODELS.get(name + suffix, (file,))[0]
    if other != file:
        raise wrong(f"{file}: there are {what} '{name}' already, from {other}; give the file another name")
    _MODELS[name + suffix] = (file, _read(data, file, suffix))


def weights_of(name: str, kind: str = Architecture.kind) -> Weights:
    """Weights by name. Raises InvalidParameters for an unknown name, and for weights of another kind of network."""
    found: Weights = _model(name, SUFFIX, "weights")
    if (other := found.architecture.kind) != kind:
        raise InvalidParameters(f"weights '{name}' are a network of '{other}'; '{kind}' needs one of its own")
    return found


def trees_of(name: str) -> Trees:
    """Trees by name. Raises InvalidParameters for an unknown name."""
    found: Trees = _model(name, TREE, "trees")
    return found


def _model(name: str, suffix: str, what: str) -> Any:
    full = name + suffix
    if full in _SHIPPED and full not in _MODELS:
        file = f"trained/{full}"
        data = pkgutil.get_data("schedulers.learned", file)  # part of the program, as its modules are
        assert data is not None
        _MODELS[full] = (file, _read(data, file, suffix))
    if full not in _MODELS:
        known = ", ".join(sorted(each.removesuffix(suffix) for each in _SHIPPED | _MODELS.keys() if suffix in each))
        raise InvalidParameters(f"no {what} '{name}' (known: {known}); name the file {full} among the plug-ins")
    return _MODELS[full][1]


def _read(data: bytes, file: str, suffix: str) -> Any:
    return unpack(data, file) if suffix == SUFFIX else tree.read(data, file)
