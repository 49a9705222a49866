"""Networks by name: those that come with the program, and those that a shell has read from files."""

from __future__ import annotations

import pkgutil
from typing import Final

from schedulers.core.errors import InvalidParameters, InvalidWeights
from schedulers.learned.weights import Weights, unpack

#: What files of weights are called behind their name.
SUFFIX: Final = ".safetensors"
#: Come with the program.
SHIPPED: Final = ("decima", "lachesis")

_SHELF: Final[dict[str, tuple[str, Weights]]] = {}


def put(name: str, data: bytes, file: str) -> None:
    """Make a file's weights known by name; again the same file replaces them. Raises InvalidWeights."""
    other = "the program" if name in SHIPPED else _SHELF.get(name, (file,))[0]
    if other != file:
        raise InvalidWeights(f"{file}: there are weights '{name}' already, from {other}; give the file another name")
    _SHELF[name] = (file, unpack(data, file))


def take(name: str, kind: str) -> Weights:
    """Raises InvalidParameters for weights that nobody has put there, and for those of another kind of network."""
    if name in SHIPPED and name not in _SHELF:
        file = f"trained/{name}{SUFFIX}"
        data = pkgutil.get_data("schedulers.learned", file)  # part of the program, as its modules are
        assert data is not None
        _SHELF[name] = (file, unpack(data, file))
    if name not in _SHELF:
        known = ", ".join((*SHIPPED, *sorted(_SHELF.keys() - SHIPPED)))
        raise InvalidParameters(
            f"no weights '{name}' (known: {known}); name the file {name}{SUFFIX} among the plug-ins"
        )
    weights = _SHELF[name][1]
    if (other := weights.architecture.kind) != kind:
        raise InvalidParameters(f"weights '{name}' are a network of '{other}'; '{kind}' needs one of its own")
    return weights
