"""From a cluster's block `faults` to the faults of the engine: presets, racks, and tables of faults."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, get_args

from rm_emulator.engine.config import CheckpointRules, FaultKind, Faults, NodeFault, NodeFaultRates, Worse
from rm_emulator.issues import Issue, TraceError, did_you_mean, show_value
from rm_emulator.scenario.durations import parse_duration, show_duration
from rm_emulator.scenario.schema import Scenario
from rm_emulator.scenario.schema.faults import FaultsBlock, NodeRates
from rm_emulator.scenario.schema.structs import into
from rm_emulator.scenario.schema.values import Distribution
from rm_emulator.workload.model import Drawn, Fixed
from schedulers.core.errors import nearest
from schedulers.core.model import Node

_HOUR_MS: Final = 3_600_000
#: Uniform from 1 to 4 hours.
_REPAIR: Final = Drawn(2.5 * _HOUR_MS, 3 / 12**0.5 / 2.5, "uniform")
#: Rates of nodes by name; docs/faults.md has the sources.
PRESETS: Final = {
    "gpu-2024": NodeFaultRates(per_1000_node_days=4.0, repair=_REPAIR, lemons=Worse(share=0.03, times=10.0)),
    "cpu": NodeFaultRates(per_1000_node_days=0.25, repair=_REPAIR),
}
#: Columns of a table of faults.
COLUMNS: Final = ("node", "from", "to", "kind")


def faults_of(read: FaultsBlock | None, nodes: Sequence[Node]) -> Faults | None:
    """The faults of a cluster with these nodes. Raises TraceError for an unreadable table."""
    if read is None:
        return None
    outages = list(_scheduled(read, nodes))
    if read.trace is not None:
        outages += table_of_faults(Path(read.trace), [node.id for node in nodes])
    rates = PRESETS[read.preset] if read.preset is not None else read.nodes and _rates(read.nodes)
    saved = read.checkpoints and into(CheckpointRules, read.checkpoints, restart=_drawn(read.checkpoints.restart))
    return into(Faults, read, outages=tuple(outages), nodes=rates, checkpoints=saved)


def _scheduled(read: FaultsBlock, nodes: Sequence[Node]) -> Iterator[NodeFault]:
    for entry in read.schedule:
        there = [entry.node] if entry.rack is None else [node.id for node in nodes if node.rack == entry.rack]
        yield from (into(NodeFault, entry, node=node) for node in there)


def _rates(read: NodeRates) -> NodeFaultRates:
    return into(NodeFaultRates, read, repair=_drawn(read.repair))


def _drawn(time: int | Distribution) -> Fixed | Drawn:
    return Drawn(float(time.mean), time.cov, time.kind) if isinstance(time, Distribution) else Fixed(time)


def table_of_faults(path: Path, nodes: Sequence[str]) -> list[NodeFault]:
    """The faults of a table (CSV), each a line with node, begin, end ('': for good) and kind.

    Raises TraceError that names file, line and value.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file, restval="", restkey=None)
            if missing := [name for name in COLUMNS[:2] if name not in (rows.fieldnames or ())]:
                raise TraceError([Issue(str(path), f"no column '{missing[0]}' (expected {', '.join(COLUMNS)})", 1)])
            found = [_fault_of(row, nodes, str(path), rows.line_num) for row in rows]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TraceError([Issue(str(path), f"cannot be read as a table of faults: {error}")]) from None
    if issues := [each for each in found if isinstance(each, Issue)]:
        raise TraceError(issues)
    return [each for each in found if isinstance(each, NodeFault)]


def tabled(path: Path, nodes: Sequence[str]) -> Iterator[dict[str, str]]:
    """The lines of a table as entries of `schedule`. Raises as `table_of_faults`."""
    for fault in table_of_faults(path, nodes):
        lasts = {} if fault.lasts_ms is None else {"for": show_duration(fault.lasts_ms)}
        yield {"at": show_duration(fault.at_ms), "node": fault.node, "kind": fault.kind, **lasts}


def _fault_of(row: dict[str, str], nodes: Sequence[str], file: str, line: int) -> NodeFault | Issue:
    """The fault of a line, or the first mistake there."""
    node, kind = row["node"], row.get("kind") or "death"
    if node not in nodes:
        return Issue(file, f"no node {show_value(node)} in this cluster", line, hint=did_you_mean(nearest(node, nodes)))
    kinds = [name for name in get_args(FaultKind) if name != "slow"]
    if kind not in kinds:
        hint = did_you_mean(nearest(kind, kinds))
        return Issue(file, f"kind {show_value(kind)} is not accepted (expected {', '.join(kinds)})", line, hint=hint)
    try:
        begin, end = parse_duration(row["from"]), parse_duration(row.get("to") or 0)
    except ValueError as error:
        return Issue(file, str(error), line)
    if row.get("to") and end <= begin:
        return Issue(file, f"'to' {show_value(row['to'])} is not after 'from' {show_value(row['from'])}", line)
    return NodeFault(at_ms=begin, node=node, kind=kind, lasts_ms=end - begin if row.get("to") else None)  # type: ignore[arg-type]


def located(scenario: Scenario, folder: Path) -> Scenario:
    """The scenario with an absolute path of its table of faults, so that no reader needs the folder."""
    faults = scenario.spec.cluster.faults
    if faults is None or faults.trace is None:
        return scenario
    path = {"trace": str((folder / faults.trace).resolve())}
    cluster = scenario.spec.cluster.model_copy(update={"faults": faults.model_copy(update=path)})
    return scenario.model_copy(update={"spec": scenario.spec.model_copy(update={"cluster": cluster})})
