"""Leadership by a Lease of the API server, with the semantics of client-go's `leaderelection`.

A candidate never compares clocks with another: it notes when the Lease changed *on its own clock* and takes over only
after the Lease has stood still for its whole duration. The holder gives up earlier, `renew_s` after sending the last
successful renewal. So there are never two holders, however far apart the clocks of the replicas. Source:
k8s.io/client-go/tools/leaderelection.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import secrets
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import structlog

from operators.client import ApiError, Client, Conflict, NotFound
from operators.config import Millis
from schedulers.objects.names import BRAIN_LEASE

log = structlog.get_logger()

#: How far `renew_s` exceeds `retry_s` at least (client-go's), so that a single failed renewal ends nothing.
JITTER: Final = 1.2


class LeaderElection(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The Lease by which replicas agree on one leader; times mean the same as in client-go.

    The times are half as long as client-go's defaults: after a leader's death nobody decides for `leaseDuration` and a
    second.
    """

    name: Annotated[str, msgspec.Meta(min_length=1)] = BRAIN_LEASE
    """Name of the Lease."""
    lease_duration: Millis = Millis(7000)
    """Time without a renewal after which another replica takes over."""
    renew_deadline: Millis = Millis(5500)
    """Time after which a leader that cannot renew gives up."""
    retry_period: Millis = Millis(1000)
    """Time between two renewals, or two tries."""

    def __post_init__(self) -> None:
        check_times(self.lease_duration / 1000, self.renew_deadline / 1000, self.retry_period / 1000)


def check_times(duration_s: float, renew_s: float, retry_s: float) -> None:
    """Raises ValueError for times that allow two leaders, or the loss of a Lease by bad luck."""
    if not (duration_s > renew_s > JITTER * retry_s > 0) or duration_s < 1:
        raise ValueError(
            f"lease times do not fit: leaseDuration {duration_s:g} s, renewDeadline {renew_s:g} s, "
            f"retryPeriod {retry_s:g} s (expected retryPeriod x {JITTER} < renewDeadline < leaseDuration, "
            "and leaseDuration at least 1 s, so that there are never two leaders)"
        )


class Term(NamedTuple):
    """A term of leadership; a later term compares greater."""

    created: str = ""
    """When the Lease object was created (RFC 3339): a Lease deleted and counting anew still gives greater terms."""
    transitions: int = 0
    """How often the Lease has changed hands since."""

    def __str__(self) -> str:
        return f"{self.created}.{self.transitions}"


def steady() -> float:
    """Seconds on a clock that only goes forward; on Linux the clock also counts the machine's sleep."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Lease:
    """One candidate for a Lease.

    `identity` is for people; a random suffix makes each identity unique, so that a restarted process does not take
    itself for its predecessor. Others wait `duration_s` after the last renewal seen; the holder tries to renew for
    `renew_s` before giving up, and the rest of `duration_s` is the time for `lost`; `retry_s` is the pause between two
    tries. `clock` gives steady seconds, `wall` the times written for people.
    Needs the verbs get, create and update on this one Lease. Raises ValueError for times that do not fit.
    """

    def __init__(
        self,
        client: Client,
        *,
        name: str,
        namespace: str,
        identity: str,
        duration_s: float = 7.0,
        renew_s: float = 5.5,
        retry_s: float = 1.0,
        clock: Callable[[], float] = steady,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        check_times(duration_s, renew_s, retry_s)
        if not identity:
            raise ValueError("a candidate for a Lease needs an identity that is not empty")
        self.identity = f"{identity}_{secrets.token_hex(4)}"
        self.name, self.namespace = name, namespace
        self._client, self._clock, self._wall = client, clock, wall
        self._duration_s, self._renew_s, self._retry_s = duration_s, renew_s, retry_s
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._path = f"{self._collection}/{name}"
        self._seen: dict[str, Any] | None = None  # the Lease as last read or written
        self._seen_at, self._wait_s = 0.0, 0.0  # when its spec was seen to change, and how long to wait from then
        self._holds, self._renewed_at = False, 0.0
        self._read_at: float | None = None
        self.term = Term()

    @classmethod
    def of(cls, client: Client, election: LeaderElection, *, namespace: str, identity: str) -> Lease:
        """A candidate with the configuration's times."""
        return cls(
            client,
            name=election.name,
            namespace=namespace,
            identity=identity,
            duration_s=election.lease_duration / 1000,
            renew_s=election.renew_deadline / 1000,
            retry_s=election.retry_period / 1000,
        )

    @property
    def leads(self) -> bool:
        """Whether this candidate holds the Lease now; false by itself when the renew deadline has passed."""
        return self._holds and self._clock() < self._renewed_at + self._renew_s

    @property
    def holder(self) -> str:
        """The holder's identity, as far as this candidate knows; empty for nobody."""
        return str(_spec(self._seen).get("holderIdentity") or "")

    def unreadable(self) -> str | None:
        """Why this candidate could not take the Lease once it is free, or None: the Lease is not read regularly."""
        if self._read_at is None:
            return f"the Lease {self.name} has not been read yet"
        silent_s = self._clock() - self._read_at
        return f"the Lease {self.name} has not been read for {silent_s:.0f} s" if silent_s > self._duration_s else None

    async def run(self, gained: Callable[[], Awaitable[None]], lost: Callable[[], Awaitable[None]]) -> None:
        """Campaign, lead, campaign again, until cancelled.

        `gained` runs next to the renewals and may take any time; the task is cancelled when leadership ends first.
        `lost` is called whenever leadership ends, before anybody else can lead, provided that `lost` returns within
        duration_s - renew_s. A cancelled `run` calls `lost`, then gives the Lease back. Errors of `gained` or `lost`
        are raised, after giving the Lease back.
        """
        while True:
            await self._acquire()
            log.info("holds the lease", lease=self.name, identity=self.identity, term=str(self.term))
            try:
                await self._lead(gained)
            except BaseException:
                await lost()
                await asyncio.shield(self._release())
                raise
            log.warning("has lost the lease", lease=self.name, identity=self.identity, holder=self.holder)
            await lost()

    # -- leading --------------------------------------------------------------------------------

    async def _lead(self, gained: Callable[[], Awaitable[None]]) -> None:
        """Returns when the Lease is lost."""
        beginning = asyncio.ensure_future(gained())
        renewing = asyncio.ensure_future(self._renew())
        try:
            await asyncio.wait({beginning, renewing}, return_when=asyncio.FIRST_COMPLETED)
            if beginning.done():
                beginning.result()
                await renewing
            else:
                renewing.result()
        finally:
            self._holds = False
            await _cancelled(beginning, renewing)

    async def _renew(self) -> None:
        """Renew every `retry_s`; returns when the Lease is somebody else's, or the deadline has passed."""
        while True:
            await asyncio.sleep(min(self._retry_s, max(0.0, self._left())))
            left = self._left()
            if left <= 0:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._try()
            if not self._holds:
                return

    def _left(self) -> float:
        return self._renewed_at + self._renew_s - self._clock()

    async def _release(self) -> None:
        """Give the Lease back, so that the next leader need not wait; best effort."""
        if self._seen is None or self.holder != self.identity:
            return
        spec = self._spec(holder="", duration_s=1)
        with contextlib.suppress(ApiError, TimeoutError):
            async with asyncio.timeout(self._retry_s):
                self._note(await self._client.replace(self._path, {**self._seen, "spec": spec}))
                log.info("has given the lease back", lease=self.name, identity=self.identity)

    # -- acquiring ------------------------------------------------------------------------------

    async def _acquire(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._renew_s):
                    await self._try()
            if self.leads:
                return
            await asyncio.sleep(self._pause_s())

    def _pause_s(self) -> float:
        """Seconds until the next try: at the end of the holder's time, or earlier, to see a Lease given back.

        Drawn, so that candidates do not try in step.
        """
        drawn = random.uniform(0.5, 1)  # noqa: S311 - no secret
        left = self._seen_at + self._wait_s - self._clock()
        return min(self._retry_s * drawn, left + 0.1 * self._retry_s * drawn) if left > 0 else self._retry_s * drawn

    async def _try(self) -> None:
        """Take or renew the Lease, if right now; sets `_holds`. Faults of the API server are left to the next try."""
        try:
            if self._holds and await self._renewed():
                return
            self._note(await self._read())
            if self._holds and self.holder != self.identity:
                self._holds = False
            elif self._may_take():
                await self._take()
        except (Conflict, NotFound):
            log.debug("somebody else has just written the lease", lease=self.name)
        except ApiError as error:
            log.warning("the lease cannot be read or written", lease=self.name, why=str(error))

    async def _renewed(self) -> bool:
        """Renew without reading first; false for a Lease other than expected (an answer may have been lost)."""
        try:
            await self._take()
        except (Conflict, NotFound):
            return False
        return True

    async def _take(self) -> None:
        """Take or renew the Lease. The time of sending counts: others may have seen the write from then on."""
        sent = self._clock()
        lease = await self._write()
        self._note(lease)
        if not self._holds:
            self.term = Term(lease["metadata"].get("creationTimestamp") or "", _spec(lease)["leaseTransitions"])
        self._holds, self._renewed_at = True, sent

    async def _read(self) -> dict[str, Any] | None:
        try:
            lease: dict[str, Any] = await self._client.get(self._path)
        except NotFound:
            return None
        return lease

    def _note(self, lease: dict[str, Any] | None) -> None:
        """Remember the Lease as read. Only a change of its spec starts the wait anew.

        A Lease deleted under its holder is waited for as if still there: the holder may not know yet.
        """
        self._read_at = self._clock()
        if _spec(lease) != _spec(self._seen):
            self._seen_at = self._read_at
        self._seen = lease
        if lease is not None:
            theirs = self.holder not in ("", self.identity)
            self._wait_s = float(_spec(lease).get("leaseDurationSeconds") or self._duration_s) if theirs else 0.0

    def _may_take(self) -> bool:
        """Whether the Lease is ours, nobody's, or has stood still for the whole duration named by its holder."""
        return self._holds or self._clock() >= self._seen_at + self._wait_s

    async def _write(self) -> dict[str, Any]:
        spec = self._spec(holder=self.identity, duration_s=math.ceil(self._duration_s))
        if self._seen is None:
            body = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": self.name, "namespace": self.namespace},
                "spec": spec,
            }
            created: dict[str, Any] = await self._client.create(self._collection, body)
            return created
        replaced: dict[str, Any] = await self._client.replace(self._path, {**self._seen, "spec": spec})
        return replaced

    def _spec(self, *, holder: str, duration_s: int) -> dict[str, Any]:
        """The spec to write; a new term counts one transition more, also when the last holder was this candidate."""
        now = self._wall().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        before = _spec(self._seen)
        transitions, acquired = int(before.get("leaseTransitions") or 0), before.get("acquireTime") or now
        if holder and not self._holds and self._seen is not None:
            transitions, acquired = transitions + 1, now
        return {
            "holderIdentity": holder,
            "leaseDurationSeconds": duration_s,
            "acquireTime": acquired,
            "renewTime": now,
            "leaseTransitions": transitions,
        }


def _spec(lease: dict[str, Any] | None) -> dict[str, Any]:
    return dict((lease or {}).get("spec") or {})


async def _cancelled(*tasks: asyncio.Future[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
