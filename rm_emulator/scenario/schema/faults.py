"""The block `faults` of a cluster."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from rm_emulator.engine.config import CheckpointRules, Faults, NodeFault, NodeFaultRates
from rm_emulator.scenario.schema.structs import block
from rm_emulator.scenario.schema.values import Distribution, StartUp, mistake

_EntryKeys: Any = block(NodeFault, "node")
_RatesKeys: Any = block(NodeFaultRates, "repair")
_CheckpointKeys: Any = block(CheckpointRules, "restart")
_FaultsKeys: Any = block(Faults, "outages", "nodes", "checkpoints")


class FaultEntry(_EntryKeys):  # type: ignore[misc]
    """A fault of a node, or of all nodes of a rack."""

    node: str | None = None
    """Node with the fault, e.g. `n1`."""
    rack: str | None = None
    """In place of a node: the rack whose nodes all have the fault, e.g. `rack1`."""


class NodeRates(_RatesKeys):  # type: ignore[misc]
    """Faults of nodes at random, drawn by node and number: exponential times between a repair and the next fault."""

    repair: StartUp
    """Time until a node with a fault is back, e.g. `{kind: uniform, mean: 150m, cov: 0.35}`."""

    @model_validator(mode="after")
    def _lasts(self) -> NodeRates:
        if not isinstance(self.repair, Distribution) and self.repair < 1:
            raise mistake("`repair` is 0: expected a duration above zero")
        return self


class CheckpointsBlock(_CheckpointKeys):  # type: ignore[misc]
    """Tasks of batch jobs save their work, those of a gang together; only what came after the last time is lost."""

    restart: StartUp = 0
    """From the start of a further attempt until work goes on, e.g. `{kind: lognormal, mean: 39m, cov: 9.7}`."""


class FaultsBlock(_FaultsKeys):  # type: ignore[misc]
    """What breaks, and when somebody notices ([faults](faults.md))."""

    preset: Literal["gpu-2024", "cpu"] | None = None
    """Rates of nodes with sources ([faults](faults.md#presets)), in place of `nodes`, e.g. `gpu-2024`."""
    schedule: list[FaultEntry] = []
    """Faults at given times, e.g. `[{at: 10m, node: n1, for: 2h}]`."""
    trace: Annotated[str, Field(min_length=1)] | None = None
    """Faults at given times from a table (CSV) with columns `node`, `from`, `to` and `kind`; `to` may be empty, e.g.
    `failures.csv`.
    """
    nodes: NodeRates | None = None
    """Faults of nodes at random, e.g. `{per_1000_node_days: 4, repair: 2h}`."""
    checkpoints: CheckpointsBlock | None = None
    """What attempts save of their work, e.g. `{every: 1h, cost: 20s, restart: 5m}`."""
