"""What a placer is: it picks the node for a task when the policy leaves that open."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from schedulers.core.registry import NoParams, Registry
from schedulers.core.resources import Vector

if TYPE_CHECKING:
    from schedulers.core.state import NodeState


class Placer(ABC):
    """Base of all placers. `seed` is for a seeded tie-break."""

    Params: type[msgspec.Struct] = NoParams

    def __init__(self, params: msgspec.Struct, *, seed: int = 0) -> None:
        self.params, self.seed = params, seed

    @abstractmethod
    def pick(self, demand: Vector, nodes: Sequence[NodeState], capacity: Vector) -> NodeState:
        """The node for a task of this demand among `nodes`: non-empty, all fit, in order of arrival.

        capacity: of the whole cluster, to weigh resources against each other.
        """


placers: Registry[Placer] = Registry("placer", "schedulers.placers")
