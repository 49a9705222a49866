"""An SLS folder as a whole: jobs.json, nodes.json, and Hadoop's configuration in conf/ (or beside them)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from rm_emulator.hadoop.capacity import CapacityConfig, capacity_config
from rm_emulator.hadoop.configuration import Configuration
from rm_emulator.hadoop.fair import FairConfig, FairQueue, fair_config
from rm_emulator.hadoop.properties import kind_of, near_modelled, not_modelled
from rm_emulator.hadoop.settings import RmConfig, rm_config
from rm_emulator.hadoop.sls import SlsNode, SlsRun, read_sls, size
from rm_emulator.issues import Issues, TraceError
from rm_emulator.workload.tables import one
from schedulers.core.errors import nearest

JOBS: Final = "jobs.json"
NODES: Final = "nodes.json"
SLS: Final = "sls-runner.xml"
SITE: Final = "yarn-site.xml"
_CAPACITY: Final = "capacity-scheduler.xml"


class Folder(msgspec.Struct, frozen=True, kw_only=True):
    """An SLS folder, read and checked."""

    path: Path
    run: SlsRun
    rm: RmConfig
    capacity: CapacityConfig | None = None
    fair: FairConfig | None = None
    queues: tuple[str, ...] = ()
    """Path of each job's queue, in order of the jobs."""
    not_modelled: tuple[str, ...] = ()
    """Properties without effect in the emulator."""
    notes: tuple[str, ...] = ()
    """Sentences for the user."""

    def node_size(self, node: SlsNode) -> tuple[int, int]:
        """(MB, vcores) of a node."""
        return size(node.memory_mb, node.vcores, self.rm.node)

    @property
    def total(self) -> tuple[int, int]:
        """(MB, vcores) of the cluster."""
        sizes = [self.node_size(node) for node in self.run.nodes]
        return sum(mb for mb, _ in sizes), sum(vcores for _, vcores in sizes)


def jobs_file(path: Path) -> Path:
    """The file of jobs: the path itself, or jobs.json in the folder."""
    return path / JOBS if path.is_dir() else path


def nodes_file(path: Path) -> Path | None:
    """nodes.json beside the jobs, or None."""
    file = jobs_file(path).with_name(NODES)
    return file if file.is_file() else None


def read_folder(path: Path) -> Folder:
    """The content of an SLS folder, checked. Raises TraceError with every mistake of all its files."""
    if not path.is_dir():
        raise one(path, f"not a folder (expected one with {JOBS}, {NODES} and conf/ in it)")
    issues = Issues()
    run: SlsRun | None = None
    try:
        run = read_sls(jobs_file(path), nodes_file(path))
    except TraceError as error:
        issues.include(error)
    conf_folder = path / "conf" if (path / "conf").is_dir() else path
    conf, sls = _configuration(conf_folder, issues)
    rm = rm_config(conf, sls=sls)
    capacity = capacity_config(conf) if rm.scheduler == "capacity" else None
    fair = fair_config(conf, conf_folder) if rm.scheduler == "fair" else None
    queues: list[str] = []
    notes = list(conf.notes)
    if run is not None:
        if capacity is not None:
            queues = list(_capacity_queues(path, run, capacity, issues))
        elif fair is not None:
            fair, queues = _fair_queues(path, run, fair, issues)
        _check_sizes(path, run, rm, issues)
        notes += run.notes
    issues.check()
    assert run is not None, "without a run there is a mistake"
    return Folder(
        path=path,
        run=run,
        rm=rm,
        capacity=capacity,
        fair=fair,
        queues=tuple(queues),
        not_modelled=(*not_modelled((p.name, conf.text(p.name, "")) for p in conf), *_elements(fair)),
        notes=(*notes, *_near(conf)),
    )


def _configuration(folder: Path, issues: Issues) -> tuple[Configuration, bool]:
    """The properties in force, and whether SLS reads them: from its own file, never from yarn-site.xml."""
    conf = Configuration(issues)
    sls = (folder / SLS).is_file()
    if not sls and not (folder / SITE).is_file():
        issues.add(f"neither {SLS} nor {SITE} is in it", file=folder)
    # The later file wins: the CapacityScheduler adds its own to what the ResourceManager was started with.
    for name in (SLS if sls else SITE, _CAPACITY):
        if (folder / name).is_file():
            conf.read(folder / name)
    if sls and (folder / SITE).is_file():
        conf.notes += _unread(conf, folder / SITE, issues)
    return conf, sls


def _unread(conf: Configuration, file: Path, issues: Issues) -> Iterator[str]:
    """Notes on modelled properties in yarn-site.xml, which SLS does not read."""
    site = Configuration(issues)
    site.read(file)
    for said in site:
        heard = conf.get(said.name)
        if kind_of(said.name, said.value or "") == "modelled" and (heard is None or heard.value != said.value):
            yield f"{said.name} in {SITE}:{said.line} has no effect: SLS reads {SLS} alone"


def _elements(fair: FairConfig | None) -> list[str]:
    return [] if fair is None else [f"<{element}>" for element in fair.not_modelled]


def _near(conf: Configuration) -> Iterator[str]:
    """Notes on unknown properties near to a modelled property: probably typing mistakes."""
    for name in not_modelled((p.name, p.value or "") for p in conf):
        near = near_modelled(name)
        if near is not None and near not in conf:
            yield f"{name} is not modelled, did you mean '{near}'?"


def _capacity_queues(path: Path, run: SlsRun, config: CapacityConfig, issues: Issues) -> Iterator[str]:
    leaves = [queue.path for queue in config.queues if not queue.children]
    parents = [queue.path for queue in config.queues if queue.children]
    for job in run.jobs:
        meant = _leaf(job.queue, leaves)
        if len(meant) == 1:
            yield meant[0]
            continue
        what = "is not declared"
        if _leaf(job.queue, parents):
            what = "has queues below it, jobs run in leaves"
        elif meant:
            what = f"could be {' or '.join(meant)}"
        short = {leaf.rpartition(".")[2]: leaf for leaf in leaves}
        message = f"job.queue.name: '{job.queue}' {what} (accepted: {', '.join(leaves)})"
        near = nearest(job.queue, [*short, *leaves])
        issues.add(message, file=jobs_file(path), line=run.lines.get(job.id), hint=near)
        yield job.queue


def _leaf(name: str, paths: Sequence[str]) -> list[str]:
    """The possible queues for a name: by the whole path, else by the last part."""
    return [path for path in paths if path == name] or [path for path in paths if path.rpartition(".")[2] == name]


def _fair_queues(path: Path, run: SlsRun, config: FairConfig, issues: Issues) -> tuple[FairConfig, list[str]]:
    """The queue of each job; undeclared queues are made where the configuration allows."""
    queues = {queue.path: queue for queue in config.queues}
    names = []
    for job in run.jobs:
        name = job.queue if job.queue == "root" or job.queue.startswith("root.") else f"root.{job.queue}"
        line = run.lines.get(job.id)
        if name not in queues and config.undeclared_queues:
            _declare(name, queues)
        if name not in queues:
            leaves = [q.path for q in queues.values() if not q.children]
            message = f"job.queue.name: '{job.queue}' is not declared (accepted: {', '.join(leaves)})"
            issues.add(message, file=jobs_file(path), line=line, hint=nearest(name, leaves))
        elif queues[name].children:
            message = f"job.queue.name: '{job.queue}' has queues below it, jobs run in leaves"
            issues.add(message, file=jobs_file(path), line=line)
        names.append(name)
    return msgspec.structs.replace(config, queues=tuple(queues.values())), names


def _declare(path: str, queues: dict[str, FairQueue]) -> None:
    """Declare a queue with all defaults, and the queues above."""
    if path in queues:
        return
    parent = path.rpartition(".")[0]
    _declare(parent, queues)
    above = queues[parent]
    queues[parent] = msgspec.structs.replace(above, children=(*above.children, path))
    queues[path] = FairQueue(path=path)


def _check_sizes(path: Path, run: SlsRun, rm: RmConfig, issues: Issues) -> None:
    """Note asks above the maximum (YARN refuses the ask and ends the job), and hosts that are no nodes of the run."""
    names = {node.name for node in run.nodes}
    for job in run.jobs:
        file, line = jobs_file(path), run.lines.get(job.id)
        sizes = {size(task.memory_mb, task.vcores, rm.container) for task in job.tasks}
        for mb, vcores in sorted(sizes | {size(job.am_memory_mb, job.am_vcores, rm.am)}):
            if mb > rm.maximum[0] or vcores > rm.maximum[1]:
                message = (
                    f"job '{job.id}' asks for {mb} MB, {vcores} vcores; the largest container has "
                    f"{rm.maximum[0]} MB, {rm.maximum[1]} vcores (yarn.scheduler.maximum-allocation-mb, -vcores)"
                )
                issues.add(message, file=file, line=line)
        for host in sorted({task.host for task in job.tasks if task.host} - names):
            message = f"job '{job.id}' asks for node '{host}', which {NODES} does not have"
            issues.add(message, file=file, line=line, hint=nearest(host, names))
