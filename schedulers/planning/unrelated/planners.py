"""All planners of DAGs on unlike machines, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from schedulers.planning.unrelated.cpop import cpop
from schedulers.planning.unrelated.deft import deft, deft_insertion, heft_copies
from schedulers.planning.unrelated.dfrn import dfrn
from schedulers.planning.unrelated.dls import dls
from schedulers.planning.unrelated.etf import etf
from schedulers.planning.unrelated.heft import heft
from schedulers.planning.unrelated.instance import Instance
from schedulers.planning.unrelated.peft import peft
from schedulers.planning.unrelated.tdca import tdca
from schedulers.planning.unrelated.tds import tds
from schedulers.planning.unrelated.timelines import TimelinePlan

#: By DEFT's rule; they take `runs`. `deft` is LACHESIS's HighRankUp-DEFT; `deft.deft` takes other orders.
DEFTS: Final[Mapping[str, Callable[..., TimelinePlan]]] = MappingProxyType(
    {planner.__name__: planner for planner in (deft, deft_insertion, heft_copies)}
)
PLANNERS: Final[Mapping[str, Callable[[Instance], TimelinePlan]]] = MappingProxyType(
    {**{planner.__name__: planner for planner in (heft, cpop, dls, peft, etf, tds, dfrn, tdca)}, **DEFTS}
)
