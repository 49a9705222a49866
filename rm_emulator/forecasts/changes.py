"""Changes to the present of a run: another policy, drained nodes, more nodes; who gains by them and who loses."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, Final

import msgspec

from rm_emulator.engine.recording import Recording
from rm_emulator.engine.simulation import Simulation
from rm_emulator.engine.takeover import take_over, takeover_obstacle
from rm_emulator.experiments.deciders import is_clairvoyant, scheduler_config
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
#: Label of a cluster's node with its own name.
_HOSTNAME: Final = "kubernetes.io/hostname"
_GOES_ON: Final = "the brain's policy decides on with its memory on both sides"
_ANEW: Final = (
    "on both sides the policy's own memory begins anew: skipped offers, reservations and the like are forgotten"
)


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

    scheduler: SchedulerConfig | None
    """Of a scheduler that is told the present; None: the scheduler of the present decides on, with its memory."""
    drained: tuple[str, ...] = ()
    """Nodes that take no new containers."""
    added: tuple[Node, ...] = ()
    """Nodes that come in addition."""


class ReadChange(msgspec.Struct, frozen=True):
    """A change that was checked: in words, and who takes over without and with the change."""

    words: str
    without: Takeover
    with_: Takeover
    notes: tuple[str, ...] = ()


def read_change(run: Paused, change: AskedChange) -> ReadChange:
    """Check a change to a run, or to a live cluster. Raises InvalidInput."""
    if why := takeover_obstacle(run.simulation):
        place = str(run.recorded.directory) if isinstance(run, PausedRun) else "the cluster"
        raise InvalidInput([Issue(place, f"cannot be taken over from a moment on: {why}")])
    nodes = _Nodes("run" if isinstance(run, PausedRun) else "cluster", run.simulation.config.nodes)
    words, notes, usual, scheduler = list[str](), list[str](), run.scheduler.config, None
    if change.policy is not None:
        entry = _entry(run, change.policy)
        scheduler = _scheduler(run, entry)
        words.append(f"under {entry['label']}")
    # A run's scheduler may wait for what only the profile of the run knows (a preemption under way): both begin anew.
    anew = scheduler is not None or isinstance(run, PausedRun)
    if not isinstance(run, PausedRun):
        notes.append(_ANEW if anew else _GOES_ON)
    for name in change.drain:
        nodes.known(f"--drain {name}", name, list(nodes.by_name))
    if change.drain:
        words.append(f"without {', '.join(dict.fromkeys(change.drain))}")
    added: list[Node] = []
    for text in change.add:
        number, like = nodes.more(text)
        taken = {*nodes.by_name, *(node.id for node in added)}
        names = (name for n in range(1, len(taken) + number + 1) if (name := f"{like.id}+{n}") not in taken)
        added += [_named(like, name) for name, _ in zip(names, range(number), strict=False)]
        words.append(f"with {number} more like {like.id}")
    without = Takeover(usual if anew else None)
    with_ = Takeover((scheduler or usual) if anew else None, tuple(dict.fromkeys(change.drain)), tuple(added))
    return ReadChange(", ".join(words), without, with_, tuple(notes))


def taken_over(simulation: Simulation, record: Recording, *, run: Paused, by: Takeover) -> Simulation:
    """The paused run (branched, perhaps) under a new scheduler, or under its own; see `take_over`."""
    if by.scheduler is None:
        return take_over(simulation, record, run.scheduler, (), drained=by.drained, added=by.added)
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


def _scheduler(run: Paused, entry: Mapping[str, Any]) -> SchedulerConfig:
    """The configuration of the scheduler that takes over. Raises InvalidInput for a predictor told true run times."""
    if isinstance(run, PausedRun):
        return scheduler_config(entry, run.recorded.cell.seed, run.recorded.scenario, run.simulation.config, 0)
    predictor = entry.get("predictor")
    if predictor is not None and is_clairvoyant(predictor):
        raise InvalidInput(
            [Issue("--policy", f"nobody tells predictor '{predictor['kind']}' the run times of a cluster")]
        )
    own = {name: value for name, value in entry.items() if name not in ("label", "predictor", "placement")}
    return replace(run.scheduler.config, policy=own, predictor=predictor, placement=entry["placement"])


def _entry(run: Paused, policy: str | Mapping[str, Any]) -> dict[str, Any]:
    """The entry of `policies`, complete. On a cluster nodes are chosen as ever, unless the entry says how."""
    option = f"--policy {policy if isinstance(policy, str) else show_value(policy)}"
    try:
        value = parse_value(policy) if isinstance(policy, str) else dict(policy)
    except ValueError as error:
        raise InvalidInput([Issue(option, str(error))]) from None
    data = copy.deepcopy(dict(run.scenario))
    wanted = {"kind": value} if isinstance(value, str) else value
    if isinstance(wanted, dict) and not isinstance(run, PausedRun):
        wanted = {"placement": run.scheduler.config.placement, **wanted}
    data["spec"]["policies"] = [wanted]
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


class _Nodes:
    """The nodes of a run or of a cluster, as options name them."""

    def __init__(self, whose: str, nodes: Iterable[Node]) -> None:
        self._whose = whose
        self.by_name = {node.id: node for node in nodes}

    def known(self, option: str, name: str, choices: Sequence[str]) -> Node:
        """The node of this name; else a message lists the choices. Raises InvalidInput."""
        if name not in self.by_name:
            more = f" and {len(choices) - _NAMED} more" if len(choices) > _NAMED else ""
            shown, near = ", ".join(choices[:_NAMED]) + more, did_you_mean(nearest(name, list(self.by_name)))
            message = f"no node of the {self._whose} is called '{name}' (nodes: {shown})"
            raise InvalidInput([Issue(option, message, hint=near)])
        return self.by_name[name]

    def more(self, text: str) -> tuple[int, Node]:
        """Number of nodes, and the node that the added nodes are like. Raises InvalidInput."""
        found = re.fullmatch(r"([0-9]{1,9})x(.+)", text)
        if found is None or not 1 <= int(found[1]) <= _MOST:
            whose, kinds = self._whose, ", ".join(self._kinds()[:_NAMED])
            message = f"expected NxNODE with N from 1 to {_MOST} and a node of the {whose} (nodes: {kinds})"
            raise InvalidInput([Issue(f"--add {text}", message)])
        return int(found[1]), self.known(f"--add {text}", found[2], self._kinds())

    def _kinds(self) -> list[str]:
        """Of each group of nodes that differ in names alone the first, and the size of the group: `n1 (4 alike)`."""
        alike: dict[bytes, list[str]] = {}
        for node in self.by_name.values():
            alike.setdefault(msgspec.json.encode(_named(node, "")), []).append(node.id)
        return [f"{first} ({1 + len(others)} alike)" if others else first for first, *others in alike.values()]


def _named(node: Node, name: str) -> Node:
    """The node under another name, which a cluster's node has as a label, too."""
    labels = {key: name if key == _HOSTNAME else value for key, value in node.labels.items()}
    return replace(node, id=name, labels=labels)


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
