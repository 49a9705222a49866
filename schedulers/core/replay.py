"""Replaying a log: the same facts through a fresh scheduler must lead to the same decisions, byte for byte.

Nothing is read or written here; the lines come from the shell, recorded in whichever world.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from typing import Any, Final, Generic, Protocol, TypeVar, cast, overload

import msgspec

from schedulers.core.decider import Decider
from schedulers.core.decisions import Decision
from schedulers.core.errors import InvalidTransition, SchedulerError
from schedulers.core.events import Event
from schedulers.core.log import EVENT, FORMAT, NOTE, READABLE, Header, Ignored, Line, Log, SchedulerConfig, parse
from schedulers.core.scheduler import Scheduler

#: So many recorded lines are compared at once.
_BATCH: Final = 1024


class CorruptLog(InvalidTransition):
    """An unreadable line, or an impossible fact; `line` is its number (from 1)."""

    def __init__(self, line: int, message: str) -> None:
        self.line = line
        super().__init__(f"line {line}: {message}")


class IncompleteLog(SchedulerError):
    """A log of decisions without the facts behind them: there is nothing to replay."""


class LogDiffers(SchedulerError):
    """The first line that the replay would have written differently.

    line: its number in the log. fact: the fact of the line, as logged. expected: the line in the log, None for no line.
    got: the line of the replay, None for no line.
    """

    def __init__(self, line: int, fact: str, expected: str | None, got: str | None) -> None:
        self.line, self.fact, self.expected, self.got = line, fact, expected, got
        super().__init__(f"line {line}: the log says {expected}, the replay {got} (after {fact})")


D = TypeVar("D", bound=Decider)
D_co = TypeVar("D_co", bound=Decider, covariant=True)


class Make(Protocol[D_co]):
    """Makes a decider from a log's header."""

    def __call__(self, config: SchedulerConfig, *, log: Log | None = None) -> D_co:
        """A decider with an empty state."""
        ...


class Step(msgspec.Struct, frozen=True, gc=False):
    """A fact of the log, with the number of its line, and the decisions of the replaying scheduler."""

    line: int
    event: Event
    decisions: list[Decision]


class Replay(Generic[D]):
    """Feeds the facts of a log to a decider made from the log's header.

    lines: as given by a file, each with its line end. make: makes the decider, a `Scheduler` by default. Iterate to
    replay, once; `scheduler` stands just after the fact of the last step. Decisions are compared with the log's in
    batches: LogDiffers may be raised some steps after the first difference, and is always raised before the iteration
    ends.

    Raises CorruptLog for a log cut off or unreadable, IncompleteLog when the facts were left out, and UnknownName or
    InvalidParameters when the header names an unknown policy, placer or predictor.
    """

    @overload
    def __init__(self: Replay[Scheduler], lines: Iterable[bytes]) -> None: ...

    @overload
    def __init__(self, lines: Iterable[bytes], make: Make[D]) -> None: ...

    def __init__(self, lines: Iterable[bytes], make: Any = Scheduler) -> None:
        self._lines, self._make = iter(lines), make
        self._hash = hashlib.sha256()
        self._read = 0  # lines read
        self._recorded: list[bytes] = []  # not yet compared; the first is line `_first`
        self._first = 1
        self._said = bytearray()
        self._log = Log(self._said.extend)
        self.events = 0
        self.decisions = 0
        self.before: Callable[[Event], None] | None = None
        """Called with each fact before the decider hears the fact."""
        self.scheduler = self._begin()

    @property
    def compared(self) -> int:
        """So many lines, from the first on, are known to be as recorded."""
        return self._first - 1

    @property
    def sha256(self) -> str:
        """Of all lines read so far."""
        return self._hash.hexdigest()

    def __iter__(self) -> Iterator[Step]:
        scheduler = self.scheduler
        while (line := self._next()) is not None:
            if line.startswith(b'{"decision"'):
                if self.events == 0:
                    raise IncompleteLog("the log holds decisions without the facts that led to them")
                self.decisions += 1
                self._recorded.append(line)
                continue
            # In batches: a comparison of long byte strings costs a fraction of a comparison per line.
            if len(self._recorded) >= _BATCH:
                self._compare()
            event = self._event(line)
            self._recorded.append(line)
            self.events += 1
            if self.before is not None:
                self.before(event)
            try:
                decisions = scheduler.handle(event)
            except (SchedulerError, LookupError) as error:
                self._recorded.pop()
                self._compare()  # an impossible fact may be the consequence of an earlier difference
                what = str(error) if isinstance(error, SchedulerError) else f"no such thing: {error}"
                raise CorruptLog(self._read, f"a fact that cannot be: {what}: {_show(line)}") from None
            yield Step(self._read, event, decisions)
        self._compare()

    def _begin(self) -> D:
        line = self._next()
        if line is None:
            raise CorruptLog(1, "the log is empty")
        header = _decode(NOTE, line, 1)
        if not isinstance(header, Header):
            raise CorruptLog(1, f"not the header of a log: {_show(line)}")
        if header.format not in READABLE:
            raise CorruptLog(1, f"a log of format {header.format}; this program reads formats up to {FORMAT}")
        self._recorded.append(line)
        if header.snapshot is not None:
            # Only a brain keeps snapshots, and a brain is a single scheduler.
            return cast(D, Scheduler.restore(header.snapshot, log=self._log))
        made: D = self._make(header.config, log=self._log)
        return made

    def _next(self) -> bytes | None:
        line = next(self._lines, None)
        if line is None:
            return None
        self._read += 1
        self._hash.update(line)
        if not line.endswith(b"\n"):
            raise CorruptLog(self._read, f"the log is cut off here: {_show(line)}")
        return line[:-1]

    def _event(self, line: bytes) -> Event:
        if not line.startswith(b'{"note"'):
            event: Event = _decode(EVENT, line, self._read)
            return event
        note = _decode(NOTE, line, self._read)
        if not isinstance(note, Ignored):
            raise CorruptLog(self._read, "a second header")
        return note.event

    def _compare(self) -> None:
        """Compare all lines recorded since the last comparison with the lines of the replay."""
        self._log.flush()
        recorded, said = self._recorded, bytes(self._said)
        first = self._first
        self._first, self._recorded = first + len(recorded), []
        self._said.clear()
        # The usual case without decoding; logs of an older format are equal only line by line, below.
        if b"\n".join(recorded) + b"\n" == said or not (recorded or said):
            return
        fact = b""
        for number, (expected, got) in enumerate(zip_longest(recorded, said.splitlines()), start=first):
            if expected is not None and not expected.startswith(b'{"decision"'):
                fact = expected
            if expected != got and not _same(expected, got):
                raise LogDiffers(number, _show(fact), _show_or_none(expected), _show_or_none(got))


def _decode(decoder: Any, line: bytes, number: int) -> Any:
    try:
        return decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptLog(number, f"cannot be read: {error}: {_show(line)}") from None


def _same(one: bytes | None, other: bytes | None) -> bool:
    """Whether two lines say the same, written differently: in another format, order of keys, form of a number."""
    if one is None or other is None:
        return False
    try:
        said = [_in_this_format(line) for line in parse((one, other))]
    except InvalidTransition:
        return False
    return said[0] == said[1]


def _in_this_format(line: Line) -> Line:
    return msgspec.structs.replace(line, format=FORMAT) if isinstance(line, Header) else line


def _show(line: bytes, limit: int = 200) -> str:
    text = line.rstrip(b"\n").decode("utf-8", "replace")
    return text if len(text) <= limit else text[:limit] + "..."


def _show_or_none(line: bytes | None) -> str | None:
    return None if line is None else _show(line)
