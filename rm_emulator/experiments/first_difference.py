"""`rm-emulator replay --policy`: a recorded log told to another policy, up to the first decision that differs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from rm_emulator.issues import InvalidInput, Issue
from rm_emulator.program import prints_apart
from rm_emulator.results.replay import log_lines, reading
from rm_emulator.scenario.document import parse_value
from schedulers.core.decisions import Decision, Hold
from schedulers.core.errors import InvalidParameters, InvalidTransition, SchedulerError, UnknownName
from schedulers.core.events import AnyEvent, Event
from schedulers.core.log import Header, Ignored, Line, SchedulerConfig, parse
from schedulers.core.policy import policies
from schedulers.core.predictor import predictors
from schedulers.core.scheduler import Scheduler

#: Parts of an entry of `policies` that stand beside the policy in a log's header.
_BESIDE: Final = ("predictor", "placement")


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
        scheduler = _made(header.config, policy)
        if header.snapshot is not None:
            scheduler = _with_memory(path, header.config, header.snapshot, scheduler)
        found = first_difference(entries, scheduler, path)
    kind = scheduler.config.policy["kind"]
    if found is None:
        print(f"{path}: {kind} decides as the log does, to its end")  # noqa: T201 (the answer)
        return 0
    shown = [_text(each) if each is not None else "nothing more" for each in (found.logged, found.got)]
    print(  # noqa: T201 (the answer)
        f"{path}:{found.line}: {kind} decides otherwise here, at {found.event.at:,} ms of the log's clock\n"
        f"  fact: {_text(found.event)}\n  log:  {shown[0]}\n  got:  {shown[1]}"
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
        return Scheduler(msgspec.structs.replace(config, policy=entry, **beside))
    except (UnknownName, InvalidParameters) as error:
        raise InvalidInput([Issue(option, str(error))]) from None


def _with_memory(path: Path, config: SchedulerConfig, snapshot: bytes, made: Scheduler) -> Scheduler:
    """The scheduler `made` with the state of a snapshot, and with the memory of the snapshot's predictor.

    config: of the scheduler that made the snapshot. The facts behind a state are not retold: the number of failed
    attempts and the past of the predictor would be lost, and decisions differ for no other reason.
    Raises InvalidInput where policy or predictor would need observations of facts before the snapshot.
    """
    own = policies.parse(made.config.policy) == policies.parse(config.policy)
    wanted = "(expected a policy that decides by the present alone, such as fifo, or a log from the start)"
    learned, asked = (each and predictors.parse(each) for each in (config.predictor, made.config.predictor))
    if asked != learned:
        message = f"begins with a memory, which tells another predictor nothing of the past {wanted}"
        raise InvalidInput([Issue(str(path), message, 1)])
    if not own and made.policy.dump() is not None:
        kind = made.config.policy["kind"]
        lacks = "begins with a memory, which lacks the observations that"
        message = f"{lacks} policy '{kind}' with these settings decides by {wanted}"
        raise InvalidInput([Issue(str(path), message, 1)])
    try:
        saved = msgspec.msgpack.decode(snapshot)
        if not own:
            saved["policy"] = None
        return Scheduler.restore(msgspec.msgpack.encode({**saved, "config": made.config}))
    except (SchedulerError, msgspec.MsgspecError, AttributeError, LookupError, TypeError, ValueError) as error:
        why = " ".join(str(error).split())
        raise InvalidInput([Issue(str(path), f"begins with a memory that cannot be read: {why}", 1)]) from None


def _text(value: Event | Decision) -> str:
    return msgspec.json.encode(value).decode()
