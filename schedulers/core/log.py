"""The log is the run: a header, then every fact that mattered followed by the decisions it led to.

One JSON object a line. A fact's line has `event`, a decision's `decision`, a note's `note`; what is at its default is
left out, so that a new field changes no log in which it says nothing. Facts that changed nothing and led to nothing (an
idle heartbeat) are left out as well, so that a run that skips idle heartbeats writes the same log as one that does not.
`sha256` is over the lines as written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Literal

import msgspec

from schedulers.core.decisions import AnyDecision, Decision
from schedulers.core.errors import InvalidTransition
from schedulers.core.events import AnyEvent, Event
from schedulers.core.model import Copies
from schedulers.core.written import Written

FORMAT: Final = 2
#: Format 1 wrote what is at its default, too.
READABLE: Final = (1, FORMAT)
_CHUNK: Final = 1 << 12


class SchedulerConfig(Written, frozen=True, kw_only=True):
    """All that a scheduler is made from; the log's header.

    policy, predictor, placement: `{'kind': name, **settings}`; predictor None: none.
    offers: 'heartbeat' one node when it beats, 'event' all nodes after each fact, 'cycle' all nodes at each Tick,
    'thought' all nodes to one job at each Thought.
    executors: containers outlive tasks. containers_per_offer: at most so many new ones per offer, or None.
    record: 'first' keeps the first reason per waiting job, 'full' every round. reserve_after: ms that a stage waits
    without room before nodes are reserved for it; None: never. copies: of tasks; None: none. first_container: number
    of the first one, where several schedulers share a cluster. decentralised: settings of schedulers
    without a view of the cluster (`schedulers.decentralised`), for which neither policy nor placement counts; None: one
    scheduler that sees the whole cluster.
    """

    resources: tuple[str, ...]
    policy: dict[str, Any]
    predictor: dict[str, Any] | None = None
    placement: dict[str, Any] = msgspec.field(default_factory=lambda: {"kind": "first_fit"})
    offers: Literal["heartbeat", "event", "cycle", "thought"] = "heartbeat"
    executors: bool = False
    containers_per_offer: int | None = None
    seed: int = 0
    record: Literal["first", "full"] = "first"
    reserve_after: int | None = None
    copies: Copies | None = None
    decentralised: dict[str, Any] | None = None
    first_container: int = 1


class Header(msgspec.Struct, frozen=True, tag_field="note", tag="Header"):
    """Line 1 of a log. snapshot: the state it begins from (base64), or None for an empty cluster."""

    config: SchedulerConfig
    format: int = FORMAT
    snapshot: bytes | None = None


class Ignored(msgspec.Struct, frozen=True, tag_field="note", tag="Ignored", gc=False):
    """A fact that was not taken: a repetition, or too late."""

    event: AnyEvent
    why: str


Line = Header | Ignored | AnyEvent | AnyDecision
EVENT: Final = msgspec.json.Decoder(AnyEvent)
NOTE: Final = msgspec.json.Decoder(Header | Ignored)
_DECISION: Final = msgspec.json.Decoder(AnyDecision)


class Log:
    """Encodes, hashes and hands on the lines of one run.

    write: takes chunks of whole lines, or None to keep nothing but the hash.
    only_decisions: leave facts out of what is written (the hash covers everything).
    """

    def __init__(self, write: Callable[[bytes], object] | None = None, *, only_decisions: bool = False) -> None:
        self._write, self._only_decisions = write, only_decisions
        self._hash = hashlib.sha256()
        self._encode_lines = msgspec.json.Encoder().encode_lines
        self._pending: list[object] = []  # facts and decisions are frozen, so they can be encoded later, in one go
        self._flushed = 0

    def header(self, config: SchedulerConfig, snapshot: bytes | None = None) -> None:
        """The first line."""
        self._pending.append(Header(config, snapshot=snapshot))

    def add(self, event: Event, decisions: list[Decision]) -> None:
        """A fact and what it led to."""
        pending = self._pending
        pending.append(event)
        if decisions:
            pending += decisions
        if len(pending) > _CHUNK:
            self.flush()

    def ignored(self, event: Event, why: str) -> None:
        """A fact that was not taken."""
        self._pending.append({"note": "Ignored", "event": event, "why": why})

    @property
    def lines(self) -> int:
        """Lines so far."""
        return self._flushed + len(self._pending)

    def flush(self) -> None:
        """Encode, hash and hand on what is pending."""
        encoded = self._encode_lines(self._pending)
        self._hash.update(encoded)
        if self._write is not None:
            if self._only_decisions:
                kept = [line for line in self._pending if isinstance(line, Decision | Header)]
                encoded = self._encode_lines(kept)
            if encoded:
                self._write(encoded)
        self._flushed += len(self._pending)
        self._pending.clear()

    @property
    def sha256(self) -> str:
        """Hash of all lines so far."""
        self.flush()
        return self._hash.hexdigest()


def parse(lines: Iterable[bytes]) -> Iterator[Line]:
    """Lines of a log as structs. Raises InvalidTransition with the line's number where one cannot be read."""
    for number, line in enumerate(lines, start=1):
        decoder: Any = EVENT
        if line.startswith(b'{"decision"'):
            decoder = _DECISION
        elif line.startswith(b'{"note"'):
            decoder = NOTE
        try:
            yield decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidTransition(f"line {number} of the log cannot be read: {error}: {line[:120]!r}") from None
