"""The log is the run: a header, then every fact of consequence followed by the decisions it led to.

A JSON object per line. A fact's line has `event`, a decision's `decision`, a note's `note`. Fields at their default are
left out, so that a new field changes no log without it. Facts without consequences (an idle heartbeat) are left out as
well, so that a run with idle heartbeats writes the same log as a run skipping them. `sha256` is over the lines as
written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Literal

import msgspec

from schedulers.core.decisions import AnyDecision, Decision
from schedulers.core.errors import InvalidTransition
from schedulers.core.events import AnyEvent, Event
from schedulers.core.model import CopyRules
from schedulers.core.written import Written

FORMAT: Final = 2
#: Format 1 wrote fields at their default, too.
READABLE: Final = (1, FORMAT)
_CHUNK: Final = 1 << 12


class SchedulerConfig(Written, frozen=True, kw_only=True):
    """Everything a scheduler is made from; the log's header."""

    resources: tuple[str, ...]
    """Names of the resources, in the order of all vectors."""
    policy: dict[str, Any]
    """`{'kind': name, **settings}`."""
    predictor: dict[str, Any] | None = None
    """`{'kind': name, **settings}`; None: no predictor."""
    placement: dict[str, Any] = msgspec.field(default_factory=lambda: {"kind": "first_fit"})
    """`{'kind': name, **settings}` of the placer."""
    offers: Literal["heartbeat", "event", "cycle", "thought"] = "heartbeat"
    """'heartbeat': a node at its beat. 'event': all nodes after each fact. 'cycle': all nodes at each Tick. 'thought':
    all nodes to a single job at each Thought.
    """
    executors: bool = False
    """Whether containers outlive tasks."""
    containers_per_offer: int | None = None
    """Largest number of new containers per offer; None: no limit."""
    seed: int = 0
    record: Literal["first", "full"] = "first"
    """'first': keep the first reason per waiting job. 'full': keep every round."""
    reserve_after: int | None = None
    """Time without room after which nodes are reserved for a stage, ms; None: never."""
    copies: CopyRules | None = None
    """Settings of copies of tasks; None: no copies."""
    decentralised: dict[str, Any] | None = None
    """Settings of schedulers without a view of the cluster (`schedulers.decentralised`), for which neither policy nor
    placement counts; None: a single scheduler with a view of the whole cluster.
    """
    first_container: int = 1
    """Number of the first container, where several schedulers share a cluster."""


class Header(msgspec.Struct, frozen=True, tag_field="note", tag="Header"):
    """Line 1 of a log."""

    config: SchedulerConfig
    format: int = FORMAT
    snapshot: bytes | None = None
    """The state at the beginning (base64), or None for an empty cluster."""


class Ignored(msgspec.Struct, frozen=True, tag_field="note", tag="Ignored", gc=False):
    """An ignored fact: a repetition, or too late."""

    event: AnyEvent
    why: str


Line = Header | Ignored | AnyEvent | AnyDecision
EVENT: Final = msgspec.json.Decoder(AnyEvent)
NOTE: Final = msgspec.json.Decoder(Header | Ignored)
_DECISION: Final = msgspec.json.Decoder(AnyDecision)


class Log:
    """Encodes, hashes and hands on the lines of a run.

    write: takes chunks of whole lines; None keeps nothing but the hash. only_decisions: leave facts out of the written
    lines (the hash covers everything). tell: takes chunks of all lines, whatever is written.
    """

    def __init__(
        self,
        write: Callable[[bytes], object] | None = None,
        *,
        only_decisions: bool = False,
        tell: Callable[[bytes], object] | None = None,
    ) -> None:
        self._write, self._only_decisions, self._tell = write, only_decisions, tell
        self._hash = hashlib.sha256()
        self._encode_lines = msgspec.json.Encoder().encode_lines
        self._pending: list[object] = []  # facts and decisions are frozen, so they can be encoded later, in one go
        self._flushed = 0

    def header(self, config: SchedulerConfig, snapshot: bytes | None = None) -> None:
        """The first line."""
        self._pending.append(Header(config, snapshot=snapshot))

    def add(self, event: Event, decisions: list[Decision]) -> None:
        """Add a fact and its decisions."""
        pending = self._pending
        pending.append(event)
        if decisions:
            pending += decisions
        # In chunks, because encoding thousands of structs in a single call is much cheaper than one by one.
        if len(pending) > _CHUNK:
            self.flush()

    def add_all(self, events: Sequence[Event]) -> None:
        """Add facts without decisions."""
        at = 0
        while at < len(events):
            # As many as `add` would take before a chunk is full.
            room = _CHUNK + 1 - len(self._pending)
            self._pending += events[at : at + room]
            at += room
            if len(self._pending) > _CHUNK:
                self.flush()

    def ignored(self, event: Event, why: str) -> None:
        """Add an ignored fact."""
        self._pending.append({"note": "Ignored", "event": event, "why": why})

    @property
    def lines(self) -> int:
        """Lines so far."""
        return self._flushed + len(self._pending)

    def flush(self) -> None:
        """Encode, hash and hand on all pending lines."""
        encoded = self._encode_lines(self._pending)
        self._hash.update(encoded)
        if self._tell is not None:
            self._tell(encoded)
        if self._write is not None:
            if self._only_decisions:
                # Encoded a second time: the hash is over all lines, whatever part of them is written.
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
    """Lines of a log as structs. Raises InvalidTransition with the number of an unreadable line."""
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
