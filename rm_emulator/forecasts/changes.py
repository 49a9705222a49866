"""Changes to the present of a run: another policy, drained nodes, more nodes; who gains by them and who loses."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, Final

import msgspec

from rm_emulator.engine.recording import Recording
from rm_emulator.engine.simulation import Simulation
from rm_emulator.engine.takeover import take_over, takeover_obstacle
from rm_emulator.experiments.deciders import scheduler_config
from rm_emulator.experiments.resolved import at_point
from rm_emulator.forecasts.answers import Compared, Percent, delays, expected, quantiles
from rm_emulator.forecasts.moment import Paused, PausedRun
from rm_emulator.forecasts.plays import Courses
from rm_emulator.issues import InvalidInput, Issue, did_you_mean, show_path, show_value
from rm_emulator.scenario.check import block_issues
from rm_emulator.scenario.document import Document, parse_value
from rm_emulator.scenario.load import validate
from schedulers.core.errors import nearest
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import Node
from schedulers.core.retelling import retold
from schedulers.core.scheduler import Scheduler

replace = msgspec.structs.replace
#: Most nodes that are added at once.
_MOST: Final = 10_000
#: Nodes named in a message.
_NAMED: Final = 10


class AskedChange(msgspec.Struct, frozen=True):
    """Changes as they were asked for, all made together."""

    policy: str | Mapping[str, Any] | None = None
    """Kind of a policy, or an entry of `policies` (a mapping, or a mapping in YAML); None: the policy stays."""
    drain: tuple[str, ...] = ()
    """Nodes that take no new containers."""
    add: tuple[str, ...] = ()
    """`NxNODE`: so many more nodes like a node."""

    @property
    def is_none(self) -> bool:
        """Whether nothing is changed."""
        return self.policy is None and not self.drain and not self.add


class Takeover(msgspec.Struct, frozen=True):
    """By whom the present is taken over, and on which nodes."""

    scheduler: SchedulerConfig
    drained: tuple[str, ...] = ()
    """Nodes that take no new containers."""
    added: tuple[Node, ...] = ()
    """Nodes that come in addition."""


class ReadChange(msgspec.Struct, frozen=True):
    """A change that was checked: in words, and who takes over without and with the change."""

    words: str
    without: Takeover
    with_: Takeover


def read_change(run: PausedRun, change: AskedChange) -> ReadChange:
    """Check a change to a run. Raises InvalidInput."""
    if why := takeover_obstacle(run.simulation):
        raise InvalidInput([Issue(str(run.recorded.directory), f"cannot be taken over from a moment on: {why}")])
    nodes = {node.id: node for node in run.simulation.config.nodes}
    words, scheduler = [], run.scheduler.config
    if change.policy is not None:
        entry, recorded = _entry(run, change.policy), run.recorded
        scheduler = scheduler_config(entry, recorded.cell.seed, recorded.scenario, run.simulation.config, 0)
        words.append(f"under {entry['label']}")
    for name in change.drain:
        _known(f"--drain {name}", name, nodes)
    if change.drain:
        words.append(f"without {', '.join(dict.fromkeys(change.drain))}")
    added: list[Node] = []
    for text in change.add:
        number, like = _more(text, nodes)
        taken = {*nodes, *(node.id for node in added)}
        names = (name for n in range(1, len(taken) + number + 1) if (name := f"{like.id}+{n}") not in taken)
        added += [replace(like, id=name) for name, _ in zip(names, range(number), strict=False)]
        words.append(f"with {number} more like {like.id}")
    drained = tuple(dict.fromkeys(change.drain))
    return ReadChange(", ".join(words), Takeover(run.scheduler.config), Takeover(scheduler, drained, tuple(added)))


def taken_over(simulation: Simulation, record: Recording, *, run: Paused, by: Takeover) -> Simulation:
    """The paused run (branched, perhaps) under a new scheduler; see `take_over`."""
    scheduler = Scheduler(by.scheduler)
    told = retold(
        run.scheduler.state,
        simulation.containers,
        history=simulation.workload.history,
        ended=run.past.jobs,
        finished=run.past.tasks,
    )
    oracle = scheduler.predictor is not None and scheduler.predictor.told_truth
    return take_over(simulation, record, scheduler, told, drained=by.drained, added=by.added, oracle=oracle)


def _entry(run: PausedRun, policy: str | Mapping[str, Any]) -> dict[str, Any]:
    """The entry of `policies`, complete."""
    option = f"--policy {policy if isinstance(policy, str) else show_value(policy)}"
    try:
        value = parse_value(policy) if isinstance(policy, str) else dict(policy)
    except ValueError as error:
        raise InvalidInput([Issue(option, str(error))]) from None
    data = copy.deepcopy(run.recorded.cell.scenario)
    data["spec"]["policies"] = [{"kind": value} if isinstance(value, str) else value]
    place = ("spec", "policies", 0)
    try:
        loaded = validate(Document("", data, None), {place: option})
        if issues := list(block_issues(loaded)):
            raise InvalidInput(issues)
    except InvalidInput as error:
        # The entry stands alone in its option, and has no place in a list there.
        front = f"{show_path(place)}."
        raise InvalidInput(replace(each, path=each.path.removeprefix(front)) for each in error.issues) from None
    entry: dict[str, Any] = at_point(loaded)["spec"]["policies"][0]
    return entry


def _known(option: str, name: str, nodes: Mapping[str, Node]) -> Node:
    if name not in nodes:
        shown = ", ".join(list(nodes)[:_NAMED]) + (f" and {len(nodes) - _NAMED} more" if len(nodes) > _NAMED else "")
        near = did_you_mean(nearest(name, list(nodes)))
        raise InvalidInput([Issue(option, f"no node of the run is called '{name}' (nodes: {shown})", hint=near)])
    return nodes[name]


def _more(text: str, nodes: Mapping[str, Node]) -> tuple[int, Node]:
    """Number of nodes, and the node that they are like."""
    found = re.fullmatch(r"([0-9]{1,9})x(.+)", text)
    if found is None or not 1 <= int(found[1]) <= _MOST:
        first = next(iter(nodes))
        message = f"expected NxNODE with N from 1 to {_MOST} and a node of the run, such as 10x{first}"
        raise InvalidInput([Issue(f"--add {text}", message)])
    return int(found[1]), _known(f"--add {text}", found[2], nodes)


def compared(
    words: str, without: Sequence[Courses], with_: Sequence[Courses], submitted: Mapping[str, int], at_ms: int
) -> Compared:
    """Who gains and who loses. submitted: the live jobs, and the submission of each, ms.

    In each draw the jobs count that end without the change. A draw in which any of these jobs never ends with the
    change counts as infinitely worse.
    """
    before, after, longer = list[int | None](), list[int | None](), list[float]()
    never: dict[str, int] = dict.fromkeys(submitted, 0)
    for a, b in zip(without, with_, strict=True):
        ends = {job: (end, b[job].finish_ms) for job in submitted if (end := a[job].finish_ms) is not None}
        if not ends:
            continue
        lost = [job for job, (_, end) in ends.items() if end is None]
        for job in lost:
            never[job] += 1
        usual = fmean(end for end, _ in ends.values())
        mean = fmean(end for _, end in ends.values() if end is not None) if not lost else None
        since = fmean(submitted[job] for job in ends)
        before.append(round(usual - since))
        after.append(None if mean is None else round(mean - since))
        longer.append(float("inf") if mean is None else 100 * ((mean - at_ms) / max(1.0, usual - at_ms) - 1))
    return Compared(
        change=words,
        jobs=delays(without, with_, at_ms),
        never=tuple(job for job, draws in never.items() if 2 * draws > len(without)),
        jct_before=expected(before or [None]),
        jct_after=expected(after or [None]),
        longer_pct=Percent(*quantiles(longer or [0.0])),
    )
