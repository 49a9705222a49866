"""Networks by name: those of the package, and those read by a shell from files."""

from __future__ import annotations

import pkgutil
from typing import Final

from schedulers.core.errors import InvalidParameters, InvalidWeights
from schedulers.learned.weights import Architecture, Weights, unpack

SUFFIX: Final = ".safetensors"
#: Weights in the package: Decima's for the mean JCT, where executors stay with jobs and where containers end with
#: tasks, Decima's for the makespan, and LACHESIS's.
SHIPPED: Final = ("decima", "containers", "makespan", "lachesis")

#: By name the file and its weights.
_MODELS: Final[dict[str, tuple[str, Weights]]] = {}


def register(name: str, data: bytes, file: str) -> None:
    """Register a file's weights by name; the same file may be read again. Raises InvalidWeights."""
    other = "the program" if name in SHIPPED else _MODELS.get(name, (file,))[0]
    if other != file:
        raise InvalidWeights(f"{file}: there are weights '{name}' already, from {other}; give the file another name")
    _MODELS[name] = (file, unpack(data, file))


def weights_of(name: str, kind: str = Architecture.kind) -> Weights:
    """Weights by name. Raises InvalidParameters for an unknown name, and for weights of another kind of network."""
    file = name + SUFFIX
    if name not in _MODELS and name in SHIPPED:
        data = pkgutil.get_data("schedulers.learned", f"trained/{file}")  # part of the program, as its modules are
        assert data is not None
        _MODELS[name] = (file, unpack(data, file))
    if name not in _MODELS:
        known = ", ".join(sorted({*SHIPPED, *_MODELS}))
        raise InvalidParameters(f"no weights '{name}' (known: {known}); name the file {file} among the plug-ins")
    _, found = _MODELS[name]
    if (other := found.architecture.kind) != kind:
        raise InvalidParameters(f"weights '{name}' are a network of '{other}'; '{kind}' needs one of its own")
    return found
