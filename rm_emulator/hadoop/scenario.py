"""An SLS folder as a scenario folder: `scenario.yaml` and the workload in stored form."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from rm_emulator.files import write_file
from rm_emulator.hadoop.capacity import CapacityConfig, CapacityQueue
from rm_emulator.hadoop.fair import FairConfig, FairQueue
from rm_emulator.hadoop.folder import Folder, read_folder
from rm_emulator.hadoop.workload import SOURCE, workload
from rm_emulator.scenario.durations import show_duration
from rm_emulator.workload import storage
from rm_emulator.workload.model import Workload
from rm_emulator.workload.tables import one
from schedulers.core.resources import show_steps
from schedulers.policies.fair_yarn import FairYarn

SCENARIO: Final = "scenario.yaml"
WORKLOAD: Final = "workload"
_UNLIMITED: Final = 2**31 - 1
#: Settings of the CapacityScheduler under different names in the policy.
_APART: Final = ("queues", "calculator")


def write_scenario(folder: Folder, target: Path, *, overwrite: bool = False) -> Workload:
    """Store the folder's run as the scenario folder `target`, wholly or not at all.

    Raises TraceError when something else is there already, or a scenario folder and `overwrite` is False.
    """
    check_target(target, overwrite=overwrite)
    name = scenario_name(folder)
    jobs, notes = workload(folder.run, name=name, container=folder.rm.container, am=folder.rm.am, queues=folder.queues)
    with storage.whole_folder(target) as fresh:
        storage.save(jobs, fresh / WORKLOAD, notes=[*folder.notes, *notes])
        write_file(fresh / SCENARIO, scenario_text(folder), sync=True)
    return jobs


def check_target(target: Path, *, overwrite: bool) -> None:
    """Raise TraceError unless `write_scenario` may write the folder `target`."""
    if not target.parent.is_dir():
        raise one(target, f"there is no folder {target.parent} to write it in")
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    written = target.is_dir() and {p.name for p in target.iterdir()} == {SCENARIO, WORKLOAD}
    if not (written and storage.is_stored(target / WORKLOAD)):
        raise one(target, "something that is not a converted scenario is there already (choose another name)")
    if not overwrite:
        raise one(target, "a scenario is stored there already (overwrite it, or choose another name)")


def scenario_name(folder: Folder) -> str:
    """The folder's name as a scenario may be called."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", folder.path.resolve().name).strip("-._")
    return name[:80] or "hadoop"


def scenario_text(folder: Folder) -> str:
    """The scenario file: YAML under a heading with the properties not modelled."""
    text = yaml.dump(
        scenario_data(folder),
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=None,
        width=120,
    )
    return "\n".join([*_heading(folder), text])


class _Dumper(yaml.SafeDumper):
    """Writes lists of equal numbers out instead of as references to each other."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _heading(folder: Folder) -> Iterator[str]:
    yield f"# Written by `rm-emulator convert hadoop`, from an SLS folder ({SOURCE})."
    if folder.not_modelled:
        yield "# Not modelled, so passed over:"
        yield from (f"#   {name}" for name in folder.not_modelled)


def scenario_data(folder: Folder) -> dict[str, Any]:
    """The scenario as plain data."""
    return {
        "apiVersion": "rm-emulator.io/v1alpha1",
        "kind": "Scenario",
        "metadata": {"name": scenario_name(folder)},
        "spec": {
            "seeds": [1],
            "cluster": _cluster(folder),
            "queues": list(_queues(folder)),
            "workload": {"kind": "trace", "path": WORKLOAD},
            "policies": [_policy(folder)],
        },
    }


def _cluster(folder: Folder) -> dict[str, Any]:
    rm = folder.rm
    increment = rm.minimum if rm.scheduler == "capacity" else rm.increment
    return {
        "nodes": list(_nodes(folder)),
        "profile": "sls" if rm.sls else "yarn",
        "heartbeat": show_duration(rm.node_heartbeat_ms),
        "application_master": {"heartbeat": show_duration(rm.am_heartbeat_ms)},
        "sizes": {
            "minimum": _quantities(rm.minimum),
            "increment": _quantities(increment),
            "maximum": _quantities(rm.maximum),
        },
    }


def _quantities(size: tuple[int, int]) -> dict[str, str | int]:
    return {"cpu": size[1], "memory": show_steps("memory", size[0])}


def _nodes(folder: Folder) -> Iterator[dict[str, Any]]:
    """Groups of equal nodes in one rack; nodes keep their names, numbered by the scenario per prefix."""
    nodes = folder.run.nodes
    prefix = _common_prefix([node.name for node in nodes])
    if prefix is None:
        for node in nodes:
            yield {"name": node.name, "capacity": _quantities(folder.node_size(node)), "rack": node.rack}
        return
    for (rack, size), group in groupby(nodes, key=lambda node: (node.rack, folder.node_size(node))):
        yield {"count": len(list(group)), "name": prefix, "capacity": _quantities(size), "rack": rack}


def _common_prefix(names: list[str]) -> str | None:
    """`node` for node1, node2, node3 (with leading zeros where a number has more digits); None for other names."""
    prefix = re.sub(r"\d+$", "", names[0])
    digits = len(str(len(names)))
    numbered = [f"{prefix}{number:0{digits}d}" for number in range(1, len(names) + 1)]
    return prefix if prefix and len(names) > 1 and names == numbered else None


def _queues(folder: Folder) -> Iterator[dict[str, Any]]:
    """The tree, parents first. A capacity queue's weight is its capacity, left out where 0."""
    if folder.fair is not None:
        rows = [(queue.path, queue.parent, queue.weight) for queue in folder.fair.queues]
    else:
        assert folder.capacity is not None
        rows = [(queue.path, queue.parent, queue.capacity) for queue in folder.capacity.queues]
    for path, parent, weight in rows:
        queue: dict[str, Any] = {"name": path}
        if parent:
            queue |= {"parent": parent}
            queue |= {"weight": _plain(weight)} if weight > 0 else {}
        running = folder.fair and _max_running(folder.fair, path)
        yield queue | ({"max_running": running} if running else {})


def _max_running(config: FairConfig, path: str) -> int | None:
    """How many applications of a queue run at once: kept by the core, under whatever policy."""
    own = next(queue.max_running_apps for queue in config.queues if queue.path == path)
    return config.default_max_running_apps if own is None else own


def _plain(value: float) -> float | int:
    return int(value) if value == int(value) else value


def _policy(folder: Folder) -> dict[str, Any]:
    if folder.fair is not None:
        return _fair(folder, folder.fair)
    assert folder.capacity is not None
    return _capacity(folder, folder.capacity)


def _capacity(folder: Folder, config: CapacityConfig) -> dict[str, Any]:
    return {
        "kind": "capacity",
        "queues": {q.path: _capacity_queue(q) for q in config.queues if q.parent or q.ordering != "utilization"},
        **{name: value for name, value in msgspec.structs.asdict(config).items() if name not in _APART},
        "minimum_allocation": list(folder.rm.minimum),
        "maximum_allocation": list(folder.rm.maximum),
        "calculator": config.calculator,
        "preemption": msgspec.to_builtins(folder.rm.preemption),
    }


def _capacity_queue(queue: CapacityQueue) -> dict[str, Any]:
    settings = {
        name: value for name, value in msgspec.structs.asdict(queue).items() if name not in ("path", "children")
    }
    for name in ("capacity", "maximum_capacity", "user_limit_factor"):
        settings[name] = _plain(settings[name])
    if queue.children:
        settings["child_ordering"] = settings.pop("ordering")
    return settings


def _fair(folder: Folder, config: FairConfig) -> dict[str, Any]:
    same = FairYarn.Params.__struct_fields__[1:]  # all but the queues
    return {
        "kind": "fair_yarn",
        "queues": {q.path: _fair_queue(q, config, folder.total) for q in config.queues if q.parent or _says(q)},
        **{name: value for name, value in msgspec.structs.asdict(config).items() if name in same},
        "locality_threshold_node": _plain(config.locality_threshold_node),
        "locality_threshold_rack": _plain(config.locality_threshold_rack),
        "increment_multiple": folder.rm.reservation_multiple,
        "minimum_allocation": list(folder.rm.minimum),
        "increment_allocation": list(folder.rm.increment),
        "maximum_allocation": list(folder.rm.maximum),
    }


def _says(queue: FairQueue) -> bool:
    """Whether the file has settings of the queue itself; for the root, files seldom do."""
    return msgspec.structs.replace(queue, children=()) != FairQueue(path=queue.path)


def _fair_queue(queue: FairQueue, config: FairConfig, total: tuple[int, int]) -> dict[str, Any]:
    """A queue with the file's defaults put in; limits without effect are left out."""
    settings: dict[str, Any] = {"weight": _plain(queue.weight)}
    if queue.minimum is not None:
        settings["min"] = list(queue.minimum.of(total, (0, 0)))
    maximum = queue.maximum or (config.default_maximum if queue.parent else None)
    if maximum is not None:
        settings["max"] = list(maximum.of(total, (_UNLIMITED, _UNLIMITED)))
    if queue.max_am_share is not None or not queue.children:
        settings["max_am_share"] = config.default_max_am_share if queue.max_am_share is None else queue.max_am_share
    settings["ordering"] = queue.ordering or config.default_ordering
    apps = _max_running(config, queue.path)
    if apps is not None:
        settings["max_running_apps"] = apps
    return settings


def convert(source: Path, output: Path, *, overwrite: bool) -> tuple[str, list[str]]:
    """Writes the scenario of a folder; returns a line on the scenario, and notes on what is not modelled.

    Raises as `read_folder` and `write_scenario`.
    """
    folder = read_folder(source)
    workload = write_scenario(folder, output, overwrite=overwrite)
    nodes, jobs = len(folder.run.nodes), len(workload.jobs)
    missing = [f"not modelled: {', '.join(folder.not_modelled)}"] if folder.not_modelled else []
    sizes = f"{nodes:,} nodes, {jobs:,} jobs, {workload.tasks:,} tasks"
    return f"{output / SCENARIO}: {sizes}", [*missing, *(f"note: {note}" for note in folder.notes)]
