"""`rm-emulator replay --policy`: a recorded log told to another policy, up to the first decision that differs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from rm_emulator.experiments.deciders import is_clairvoyant
from rm_emulator.issues import InvalidInput, Issue
from rm_emulator.program import prints_apart
from rm_emulator.results.replay import log_lines, reading
from rm_emulator.scenario.document import parse_value
from schedulers.core.compatible import assigns_ahead
from schedulers.core.decisions import Decision, Hold
from schedulers.core.errors import InvalidParameters, InvalidTransition, SchedulerError, UnknownName
from schedulers.core.events import AnyEvent, Event
from schedulers.core.log import Header, Ignored, Line, SchedulerConfig, parse
from schedulers.core.policy import policies
from schedulers.core.predictor import predictors
from schedulers.core.retelling import retold
from schedulers.core.scheduler import Scheduler

#: Parts of an entry of `policies` that stand beside the policy in a log's header.
_BESIDE: Final = ("predictor", "placement")
#: About a log that begins with a snapshot.
_POLICY: Final = (
    "note: at the snapshot the memory of {0} begins anew, told of jobs, finished tasks and containers: {0} cannot know "
    "passed offers, plans, rehearsals, former places in queues, and the queues that paid for running containers"
)
_PREDICTOR: Final = (
    "note: at the snapshot predictor {0} begins anew: {0} cannot know jobs that had ended, and of a finished task the "
    "mean run time of its stage alone"
)


class Difference(NamedTuple):
    """The first fact on which two policies decide otherwise."""

    line: int
    event: Event
    logged: Decision | None
    """None: the log has no further decision on this fact."""
    got: Decision | None


def main(path: Path, policy: str) -> int:
    """Print the first difference; 1 where there is one, else 0. Raises InvalidInput."""
    with reading(path), prints_apart():
        header, entries = _read(path)
        scheduler, notes = _made(header.config, policy), list[str]()
        if header.snapshot is not None:
            scheduler, notes = at_snapshot(path, header, scheduler)
        found = first_difference(entries, scheduler, path)
    kind = scheduler.config.policy["kind"]
    if found is None:
        _say(f"{path}: {kind} decides as the log does, to its end", *notes)
        return 0
    shown = [_text(each) if each is not None else "nothing more" for each in (found.logged, found.got)]
    _say(
        f"{path}:{found.line}: {kind} decides otherwise here, at {found.event.at:,} ms of the log's clock",
        *(f"  fact: {_text(found.event)}", f"  log:  {shown[0]}", f"  got:  {shown[1]}"),
        *notes,
    )
    return 1


def first_difference(
    entries: Iterable[tuple[int, AnyEvent, list[Decision]]], scheduler: Scheduler, path: Path
) -> Difference | None:
    """Tell facts to a scheduler until its decisions differ from those logged; None where none differs.

    entries: line, fact and logged decisions. scheduler: as at the beginning of the log. path: the log, for messages.
    Reasons to wait (`Hold`) are worded by each policy, and do not count.
    Raises InvalidInput where the scheduler takes a fact for impossible.
    """
    for line, event, logged in entries:
        try:
            got = scheduler.handle(event)
        except (SchedulerError, LookupError) as error:
            raise InvalidInput([Issue(str(path), f"a fact that cannot be: {error}", line)]) from None
        for one, other in zip_longest(*(_counted(each) for each in (logged, got))):
            if one != other:
                return Difference(line, event, one, other)
    return None


def _counted(decisions: Iterable[Decision]) -> list[Decision]:
    return [each for each in decisions if not isinstance(each, Hold)]


def _read(path: Path) -> tuple[Header, Iterator[tuple[int, AnyEvent, list[Decision]]]]:
    """The header, and the entries behind the header. Raises InvalidInput."""
    lines = _parsed(path)
    header = next(lines, None)
    if not isinstance(header, Header):
        raise InvalidInput([Issue(str(path), "not the header of a log", 1)])
    if header.config.decentralised is not None:
        raise InvalidInput([Issue(str(path), "is of a scheduler that has no policy (expected one with a policy)", 1)])
    return header, _entries(lines, path)


def _parsed(path: Path) -> Iterator[Line]:
    try:
        yield from parse(log_lines(path))
    except InvalidTransition as error:
        raise InvalidInput([Issue(str(path), str(error))]) from None


def _entries(lines: Iterator[Line], path: Path) -> Iterator[tuple[int, AnyEvent, list[Decision]]]:
    at, decisions = 0, list[Decision]()
    event: AnyEvent | None = None
    for number, line in enumerate(lines, start=2):
        if isinstance(line, Decision):
            decisions.append(line)
            continue
        if isinstance(line, Header):
            raise InvalidInput([Issue(str(path), "a second header", number)])
        if event is not None:
            yield at, event, decisions
        at, event, decisions = number, line.event if isinstance(line, Ignored) else line, []
    if event is not None:
        yield at, event, decisions


def _made(config: SchedulerConfig, policy: str) -> Scheduler:
    """A scheduler as the log's, under the policy of the option: a kind, or an entry of `policies`."""
    option = f"--policy {policy}"
    try:
        value = parse_value(policy)
    except ValueError as error:
        raise InvalidInput([Issue(option, str(error))]) from None
    entry: dict[str, Any] = dict(value) if isinstance(value, dict) else {"kind": value}
    if not isinstance(entry.get("kind"), str):
        message = "expected the kind of a policy, or an entry of policies such as {kind: fair}"
        raise InvalidInput([Issue(option, message)])
    entry.pop("label", None)
    beside = {name: entry.pop(name) for name in _BESIDE if name in entry}
    if wrong := next((name for name, each in beside.items() if not isinstance(each, dict)), None):
        raise InvalidInput([Issue(option, f"{wrong} is no mapping with a kind")])
    try:
        made = Scheduler(msgspec.structs.replace(config, policy=entry, **beside))
        if is_clairvoyant(made.config.predictor) and not is_clairvoyant(config.predictor):
            kind = beside["predictor"]["kind"]
            raise InvalidInput(
                [Issue(option, f"predictor '{kind}' would need the true run times, which the log lacks")]
            )
        return made
    except (UnknownName, InvalidParameters) as error:
        raise InvalidInput([Issue(option, str(error))]) from None


def at_snapshot(path: Path, header: Header, made: Scheduler) -> tuple[Scheduler, list[str]]:
    """The scheduler `made` with the state of the header's snapshot, and a sentence on each memory that begins anew.

    path: the log, for messages. State, and the memory of an equal policy or predictor, are the snapshot's: retold facts
    alone would lose failed attempts and the past of the predictor, and decisions would differ for no other reason.
    Raises InvalidInput for a memory that cannot be read, or a present that cannot be retold.
    """
    config, snapshot = header.config, header.snapshot or b""
    own, learned = _is_own(config, made.config), _predictor_of(config) == _predictor_of(made.config)
    anew = not own and made.policy.dump() is not None
    notes = [_POLICY.format(made.config.policy["kind"])] if anew else []
    if not learned:
        notes.append(_PREDICTOR.format((made.config.predictor or {})["kind"]))
    try:
        saved = msgspec.msgpack.decode(snapshot)
        if not own:
            saved["policy"] = None
        if notes:
            told = _retold(path, Scheduler.restore(snapshot), made.config)
            if anew:
                saved["policy"] = told["policy"]
            if not learned:
                saved["predictor"] = told["predictor"]
                _exchange_pilots(saved["state"], told["state"])
            # A memory that begins anew has read of no change.
            saved["state"]["touched"] = [job["spec"]["id"] for job in saved["state"]["jobs"]]
        return Scheduler.restore(msgspec.msgpack.encode({**saved, "config": made.config})), notes
    except (SchedulerError, msgspec.MsgspecError, AttributeError, LookupError, TypeError, ValueError) as error:
        why = " ".join(str(error).split())
        raise InvalidInput([Issue(str(path), f"begins with a memory that cannot be read: {why}", 1)]) from None


def _is_own(config: SchedulerConfig, other: SchedulerConfig) -> bool:
    """Whether the memory of a policy is of use to the other: lines of tasks at nodes come and go with the placer."""
    lines = config.placement != other.placement and any(map(assigns_ahead, (config.placement, other.placement)))
    return not lines and policies.parse(config.policy) == policies.parse(other.policy)


def _predictor_of(config: SchedulerConfig) -> Any:
    return config.predictor and predictors.parse(config.predictor)


def _retold(path: Path, before: Scheduler, config: SchedulerConfig) -> Any:
    """The snapshot of a new scheduler that is told the present of another. Raises InvalidInput."""
    state = before.state
    if config.executors or state.copies.settings is not None or state.links is not None:
        lacks = "idle executors, copies of tasks and data on its way cannot be retold to"
        message = f"begins with a memory: {lacks} policy '{config.policy['kind']}' (expected one without a memory)"
        raise InvalidInput([Issue(str(path), message, 1)])
    scheduler = Scheduler(config)
    for fact in retold(state, state.containers):
        scheduler.handle(fact)
    return msgspec.msgpack.decode(scheduler.snapshot())


def _exchange_pilots(state: Any, told: Any) -> None:
    """Put in place of one predictor's pilots and sizes those of another, in the data of `dump`."""
    jobs = {job["spec"]["id"]: job for job in told["jobs"]}
    pilots = {container["id"]: container["pilot"] for container in told["containers"]}
    for job in state["jobs"]:
        other = jobs[job["spec"]["id"]]
        job.update((name, other[name]) for name in ("plan", "pilots_left", "size_ms", "size_source"))
        for stage, named in zip(job["stages"], other["stages"], strict=True):
            stage.update((name, named[name]) for name in ("next", "taken", "pilots", "returned"))
    for container in state["containers"]:
        container["pilot"] = pilots[container["id"]]


def _say(*lines: str) -> None:
    print(*lines, sep="\n")  # noqa: T201 (the answer)


def _text(value: Event | Decision) -> str:
    return msgspec.json.encode(value).decode()
