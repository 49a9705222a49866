"""A first scenario for a trace: nodes of the right number and size, the trace's queues, and policies worth trying."""

from __future__ import annotations

import os
import re
from itertools import accumulate
from pathlib import Path
from textwrap import wrap
from typing import Any, Final

import msgspec

from rm_emulator.files import write_file
from rm_emulator.issues import InvalidInput, Issue
from rm_emulator.scenario.durations import parse_duration, show_duration
from rm_emulator.workload import formats, stage_table, storage
from rm_emulator.workload.contents import Contents
from rm_emulator.workload.describe import Description, describe_table
from rm_emulator.workload.formats import Trace
from rm_emulator.workload.model import Workload
from rm_emulator.workload.profiles import from_profiles
from rm_emulator.workload.sizes import ClusterSizes, Wanted, parse_node
from schedulers.core.errors import InvalidParameters
from schedulers.core.fields import NAME

#: Tasks of a scenario that runs in minutes; of a longer trace the first jobs are taken.
MOST_TASKS: Final = 100_000
#: Queues that a scenario is readable with.
_MOST_QUEUES: Final = 200
#: Less of the work in jobs with a history leaves nothing to learn from.
_RECURS: Final = 0.3
_PROFILES: Final = {
    **dict.fromkeys(("yarn_apps", "hadoop"), ("yarn", "nodes report by heartbeats, as in YARN")),
    **dict.fromkeys(("pods", "openb"), ("kubernetes", "pods are bound one by one, as by kube-scheduler")),
}
_EVENTS: Final = ("events", "decisions at each arrival and end, on all nodes at once")
_GANGS: Final = ("events", "gangs need decisions on all nodes at once")


class _Source(msgspec.Struct, frozen=True, kw_only=True):
    """The trace as the scenario names it."""

    path: Path
    format: str
    options: dict[str, Any]


def wanted_cluster(wait: str | None, node: str | None, nodes: int | None = None) -> Wanted:
    """The cluster to be sized, by the options of a command; None for the usual value. Raises InvalidParameters."""
    wanted = Wanted(node=None if node is None else parse_node(node), nodes=nodes)
    if wait is None:
        return wanted
    try:
        return msgspec.structs.replace(wanted, wait_ms=parse_duration(wait))
    except ValueError as error:
        raise InvalidParameters(f"--wait: {error}") from None


def write(
    path: Path,
    folder: Path,
    *,
    format_: str | None = None,
    texts: tuple[str, ...] = (),
    skip_bad_rows: bool = False,
    wanted: Wanted | None = None,
) -> list[Path]:
    """Write `NAME.yaml` and `NAME-nodes.yaml`, a sweep over the number of nodes, for a trace; returns their paths.

    `format_`: of the trace, guessed when None. `texts`: settings of the format. `wanted`: the cluster. Raises the
    errors of `formats.opened`, InvalidParameters for a node too small, InvalidInput for files that exist already.
    """
    source, trace = _opened(path, format_, texts, skip_bad_rows=skip_bad_rows)
    name = _name(path)
    targets = [folder / f"{name}.yaml", folder / f"{name}-nodes.yaml"]
    if taken := [target for target in targets if target.exists()]:
        raise InvalidInput([Issue(str(t), "is there already: remove it, or choose another DIR") for t in taken])
    source, workload = _shortened(_anywhere(source, trace.workload), trace.workload)
    wanted = wanted or Wanted()
    sampler = from_profiles(trace.profiles) if trace.profiles else None
    table = stage_table.of(workload, sampler)
    described = describe_table(table, wanted=wanted)
    if described.sizes is None:
        raise InvalidInput([Issue(str(path), "no job has run times that are known: there is nothing to size")])
    draft = _Draft(source, trace.workload, workload, described, described.sizes, wanted)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for target, text in zip(targets, (draft.scenario(name, folder), draft.sweep(name, folder)), strict=True):
            write_file(target, text.encode())
    except OSError as error:
        raise InvalidInput([Issue(str(folder), f"cannot be written: {error.strerror}")]) from None
    return targets


def _opened(path: Path, format_: str | None, texts: tuple[str, ...], *, skip_bad_rows: bool) -> tuple[_Source, Trace]:
    if format_ is None and storage.is_stored(path):
        return _Source(path=path, format="internal", options={}), formats.stored(path)
    format_ = format_ or formats.guess(path)
    options = formats.settings(format_, texts, skip_bad_rows=skip_bad_rows)
    return _Source(path=path, format=format_, options=options), formats.read(format_, path, options)


def _name(path: Path) -> str:
    """The name of the scenario: that of the file, in letters that a name may have."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", path.resolve().name.partition(".")[0]).strip("-._")[:70]
    return name if re.match(NAME, name) else "trace"


def _anywhere(source: _Source, workload: Workload) -> _Source:
    """The trace without the nodes that its tasks prefer: the scenario's cluster has others."""
    if not any(stage.hosts for entry in workload.jobs for stage in entry.job.stages):
        return source
    if source.format == "internal" or not formats.has_setting(source.format, "hosts"):
        said = "tasks prefer nodes of their own cluster, which a drafted one lacks"
        raise InvalidInput([Issue(str(source.path), f"{said}: convert the trace with --option hosts=false")])
    return msgspec.structs.replace(source, options=source.options | {"hosts": False})


def _shortened(source: _Source, workload: Workload) -> tuple[_Source, Workload]:
    """The first jobs of a trace too long to run at once, where the format can leave out the others."""
    upto = list(accumulate(entry.job.tasks for entry in workload.jobs))
    jobs = max(1, sum(tasks <= MOST_TASKS for tasks in upto))
    if jobs == len(upto) or source.format == "internal" or not formats.has_setting(source.format, "limit"):
        return source, workload
    source = msgspec.structs.replace(source, options=source.options | {"limit": jobs})
    return source, msgspec.structs.replace(workload, jobs=workload.jobs[:jobs])


class _Draft:
    """The text of both files."""

    def __init__(
        self,
        source: _Source,
        whole: Workload,
        workload: Workload,
        described: Description,
        sized: ClusterSizes,
        wanted: Wanted,
    ) -> None:
        self._source, self._whole, self._workload = source, whole, workload
        self._described, self._sizes, self._wanted = described, sized, wanted
        self._stages = [stage for entry in workload.jobs for stage in entry.job.stages]
        self._gangs = any(stage.gang for stage in self._stages)
        self._queues = self._named_queues()
        self._nodes = wanted.nodes or sized.enough or sized.least

    def scenario(self, name: str, folder: Path) -> str:
        """The scenario with three policies."""
        said = f"Written by `rm-emulator init --from`. {self._described.verdict}"
        lines = [
            f"# Jobs of {self._source.path.name}: what would another policy change?",
            "#",
            *(f"# {line}" for line in wrap(said, 110)),
            *self._head(name),
            *self._cluster(),
            *self._queue_lines(),
            *self._jobs(folder),
            "  policies:",
            *(f"  {line}" for line in self._policies()),
            "  baseline: fifo",
        ]
        return "\n".join(lines) + "\n"

    def sweep(self, name: str, folder: Path) -> str:
        """The same jobs under a single policy, with fewer and with more nodes."""
        step = max(1, round(self._nodes / 10)) if self._nodes < 50 else 10
        counts = sorted({max(self._sizes.least, self._nodes - step), self._nodes, self._nodes + step})
        lines = [
            f"# Jobs of {self._source.path.name} on fewer and on more nodes: how long do they wait?",
            *self._head(f"{name}-nodes"),
            *self._cluster(),
            *self._queue_lines(),
            *self._jobs(folder),
            "  policies:",
            "  - {kind: fifo}",
            "  headline: wait_s.p90",
            f'  sweep: {{"cluster.nodes[0].count": [{", ".join(map(str, counts))}]}}',
        ]
        return "\n".join(lines) + "\n"

    @staticmethod
    def _head(name: str) -> list[str]:
        return ["apiVersion: rm-emulator.io/v1alpha1", "kind: Scenario", f"metadata: {{name: {name}}}", "spec:"]

    def _cluster(self) -> list[str]:
        sized, wait = self._sizes, show_duration(self._wanted.wait_ms)
        capacity = ", ".join(f"{_key(resource)}: {amount}" for resource, amount in sized.node.items())
        profile, why = self._profile()
        said = f"The least number of such nodes on which nothing is refused is {sized.least}."
        if sized.enough is not None:
            said += f" With {sized.enough}, 90 % of the jobs wait {wait} at most, by an estimate."
        lines = [
            "  cluster:",
            "    nodes:",
            *(f"    # {line}" for line in wrap(said, 110)),
            f"    - {{count: {self._nodes}, capacity: {{{capacity}}}}}",
            f"    profile: {profile}  # {why}",
        ]
        return lines + (["    executors: {moving_delay: 2s, warmup: 1s}"] if self._workload.uses_waves else [])

    def _profile(self) -> tuple[str, str]:
        if self._gangs:
            return _GANGS
        return _PROFILES.get(self._source.format, _EVENTS)

    def _named_queues(self) -> list[str]:
        """The trace's queues; none where there is a single one, or where their names are not those of a scenario."""
        names = sorted({entry.job.queue for entry in self._workload.jobs})
        fitting = all(re.match(NAME, name) for name in names)
        return names if 1 < len(names) <= _MOST_QUEUES and fitting else []

    def _queue_lines(self) -> list[str]:
        if not self._queues:
            return []
        weights = (f"  - {{name: {_text(name)}, weight: 1}}" for name in self._queues)
        return ["  queues:  # of the trace; the weights are yours to set", *weights]

    def _jobs(self, folder: Path) -> list[str]:
        source = self._source
        path = os.path.relpath(source.path.resolve(), folder.resolve())
        lines = ["  workload:", "    kind: trace", f"    format: {source.format}", f"    path: {_text(path)}"]
        if not source.options:
            return lines
        if "limit" in source.options and len(self._workload.jobs) < len(self._whole.jobs):
            lines.append(
                f"    # The first {len(self._workload.jobs):,} of {len(self._whole.jobs):,} jobs, so that a run takes "
                "minutes; without limit, all."
            )
        if source.options.get("hosts") is False:
            lines.append("    # Nodes that tasks prefer are left out: they are not those of this cluster.")
        return [*lines, f"    options: {msgspec.json.encode(source.options).decode()}"]

    def _policies(self) -> list[str]:
        """Three policies, each below its reason."""
        dag = "_dag" if any(len(entry.job.stages) > 1 for entry in self._workload.jobs) else ""
        lines = ["# The baseline: in order of submission.", "- {kind: fifo}", *self._fair()]
        known: Contents | None = self._workload.contents
        recurring = self._described.recurring
        if not self._gangs and (known is None or known.task_times) and self._samples():
            return [
                *lines,
                "# Short jobs first, by sizes learned from the first tasks of each job.",
                f"- {{label: slearn, kind: gs, predictor: {{kind: slearn{dag}}}}}",
            ]
        if recurring is not None and recurring.error is not None and recurring.work >= _RECURS:
            return [
                *lines,
                f"# Short jobs first, by sizes learned from earlier runs: {recurring.work:.0%} of the work recurs.",
                f"- {{label: three_sigma, kind: gs, predictor: {{kind: three_sigma{dag}}}}}",
            ]
        return [*lines, "# Short jobs first without an estimate, by the time that each job has had.", "- {kind: las}"]

    def _samples(self) -> bool:
        """Whether sampling has enough work with tasks to sample."""
        teachers = self._described.teachers
        return teachers is not None and teachers.sampling + teachers.first_time + teachers.history > _RECURS

    def _fair(self) -> list[str]:
        if self._queues:
            return ["# Queues get their weighted shares of the scarcest resource.", "- {kind: drf}"]
        if len({entry.job.user for entry in self._workload.jobs}) > 1:
            return ["# Users get equal shares of the scarcest resource.", "- {kind: drf, level: user}"]
        return ["# Jobs get equal shares: short ones do not wait for long ones.", "- {kind: fair}"]


def _key(resource: str) -> str:
    return resource if re.fullmatch(r"[a-z]+", resource) else _text(resource)


def _text(value: str) -> str:
    """A text as YAML: plain where that is safe, else in JSON's quotes."""
    plain = re.fullmatch(r"[A-Za-z][A-Za-z0-9._/-]*|\.\.?/[A-Za-z0-9._/-]+", value)
    reserved = value.lower() in ("yes", "no", "on", "off", "true", "false", "null", "y", "n")
    return value if plain and not reserved else msgspec.json.encode(value).decode()
