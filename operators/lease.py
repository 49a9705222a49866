"""Leadership by a Lease of the API server, with the semantics of client-go's `leaderelection`.

A candidate never compares clocks with another: it notes when it saw the Lease change *on its own clock*
and takes over only after the Lease has stood still for its whole duration. The holder gives up earlier
than that, `renew_s` after it sent the last renewal that succeeded. So there are never two, however far
the clocks of the replicas are apart. Source: k8s.io/client-go/tools/leaderelection.
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

#: How far `renew_s` exceeds `retry_s` at least (client-go's), so that one renewal that fails ends nothing.
JITTER: Final = 1.2


class LeaderElection(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The Lease by which replicas agree on one that decides; times mean what they mean in client-go.

    They are half as long as its defaults: after a leader that died nobody decides for `leaseDuration` and a second.
    """

    name: Annotated[str, msgspec.Meta(min_length=1)] = BRAIN_LEASE
    lease_duration: Millis = Millis(7000)
    renew_deadline: Millis = Millis(5500)
    retry_period: Millis = Millis(1000)

    def __post_init__(self) -> None:
        check_times(self.lease_duration / 1000, self.renew_deadline / 1000, self.retry_period / 1000)


def check_times(duration_s: float, renew_s: float, retry_s: float) -> None:
    """Raises ValueError for times with which there could be two leaders, or a Lease that is lost by bad luck."""
    if not (duration_s > renew_s > JITTER * retry_s > 0) or duration_s < 1:
        raise ValueError(
            f"lease times do not fit: leaseDuration {duration_s:g} s, renewDeadline {renew_s:g} s, "
            f"retryPeriod {retry_s:g} s (expected retryPeriod x {JITTER} < renewDeadline < leaseDuration, "
            "and leaseDuration at least 1 s, so that there are never two leaders)"
        )


class Term(NamedTuple):
    """Which term of leadership; a later one compares greater.

    created: when the Lease object was created (RFC 3339), so that a Lease that was deleted and begins to
    count anew still gives greater terms. transitions: how often it has changed hands since.
    """

    created: str = ""
    transitions: int = 0

    def __str__(self) -> str:
        return f"{self.created}.{self.transitions}"


def steady() -> float:
    """Seconds on a clock that only goes forward; on Linux it also counts the time that the machine slept."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Lease:
    """One candidate for a Lease.

    identity: who it is, for people; a random suffix makes it unique, so that a restarted process does not take
    itself for its predecessor.
    duration_s: how long others wait after the last renewal that they saw. renew_s: how long the holder
    tries to renew before it gives up; what is left of `duration_s` is the time that `lost` may take.
    retry_s: pause between two tries. clock: seconds, steady; wall: what is written as times, for people.
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
        self.term = Term()

    @classmethod
    def of(cls, client: Client, election: LeaderElection, *, namespace: str, identity: str) -> Lease:
        """A candidate as the configuration says."""
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
        """Who holds it, as far as this candidate knows; empty for nobody."""
        return str(_spec(self._seen).get("holderIdentity") or "")

    async def run(self, gained: Callable[[], Awaitable[None]], lost: Callable[[], Awaitable[None]]) -> None:
        """Campaign, lead, campaign again, until cancelled.

        gained: runs beside the renewals and may take as long as it likes; it is cancelled when leadership
        ends before it does. lost: called whenever leadership ends, before anybody else can have it, if it
        returns within duration_s - renew_s. A cancelled `run` calls `lost`, then gives the Lease back.
        Raises what `gained` or `lost` raise, after giving the Lease back.
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
        """Renew every `retry_s`; returns when it is somebody else's, or the deadline has passed."""
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
        """Give it back, so that the next one need not wait; best effort."""
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
        """Until the next try: when the holder's time is over, or earlier, to see whether it has given the Lease back.

        Drawn, so that candidates do not try in step.
        """
        drawn = random.uniform(0.5, 1)  # noqa: S311 - no secret
        left = self._seen_at + self._wait_s - self._clock()
        return min(self._retry_s * drawn, left + 0.1 * self._retry_s * drawn) if left > 0 else self._retry_s * drawn

    async def _try(self) -> None:
        """Take or renew it, if that is right now; sets `_holds`. Faults of the API server are left to the next try."""
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
        """Renew without reading first; false when it is not as we know it (an answer of ours may have been lost)."""
        try:
            await self._take()
        except (Conflict, NotFound):
            return False
        return True

    async def _take(self) -> None:
        """What counts is when the write was sent: others may have seen it from then on."""
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
        """Remember what was read. A change of its spec, and nothing else, starts the wait anew.

        A Lease that was deleted under its holder is waited for as if it were there: the holder may not know yet.
        """
        if _spec(lease) != _spec(self._seen):
            self._seen_at = self._clock()
        self._seen = lease
        if lease is not None:
            theirs = self.holder not in ("", self.identity)
            self._wait_s = float(_spec(lease).get("leaseDurationSeconds") or self._duration_s) if theirs else 0.0

    def _may_take(self) -> bool:
        """Whether it is ours, nobody's, or has stood still for the whole duration that its holder named."""
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
        """What is written; a new term counts one transition more, also when the last holder was ourselves."""
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
