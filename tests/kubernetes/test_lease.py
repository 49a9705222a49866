"""Leadership: never two, and never none for long. Times here are virtual, so they are exact."""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.client import Client
from operators.lease import Lease, Term
from tests.kubernetes.store import Store, StoreClient, VirtualLoop, nothing, run_virtual, until

PATH = "/apis/coordination.k8s.io/v1/namespaces/rm-system/leases/rm-brain"
DURATION, RENEW, RETRY = 15.0, 10.0, 2.0


class Candidate:
    """A Lease with a client of its own and a record of when it was called."""

    def __init__(self, loop: VirtualLoop, store: Store, name: str, *, skew_s: float = 0.0, lost_s: float = 0.0) -> None:
        self.loop, self.client = loop, StoreClient(store)
        self.lost_s = lost_s
        self.acts = False
        self.gained_at: list[float] = []
        self.lost_at: list[float] = []
        epoch = datetime(2026, 1, 1, tzinfo=UTC)
        self.lease = Lease(
            cast(Client, self.client),
            name="rm-brain",
            namespace="rm-system",
            identity=name,
            duration_s=DURATION,
            renew_s=RENEW,
            retry_s=RETRY,
            clock=lambda: loop.time() + skew_s,
            wall=lambda: epoch + timedelta(seconds=loop.time() + skew_s),
        )

    async def gained(self) -> None:
        self.acts = True
        self.gained_at.append(self.loop.time())

    async def lost(self) -> None:
        await asyncio.sleep(self.lost_s)
        self.acts = False
        self.lost_at.append(self.loop.time())

    @contextlib.asynccontextmanager
    async def campaign(self) -> AsyncIterator[Candidate]:
        task = asyncio.ensure_future(self.lease.run(self.gained, self.lost))
        try:
            yield self
        finally:
            await stop(task)


async def stop(task: asyncio.Future[Any]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@contextlib.asynccontextmanager
async def pair(loop: VirtualLoop, **second: float) -> AsyncIterator[tuple[Store, Candidate, Candidate]]:
    """The first leads, the second stands by and has seen it renew."""
    store = Store()
    async with Candidate(loop, store, "a").campaign() as a:
        await until(lambda: a.lease.leads)
        async with Candidate(loop, store, "b", **second).campaign() as b:
            await asyncio.sleep(3 * DURATION)
            yield store, a, b


def test_of_two_candidates_one_leads() -> None:
    async def main(loop: VirtualLoop) -> None:
        async with pair(loop) as (_, a, b):
            assert (a.lease.leads, b.lease.leads) == (True, False)
            assert b.lease.holder == a.lease.identity

    run_virtual(main)


def test_a_holder_that_is_cut_off_has_acted_for_the_last_time_when_the_next_one_gains() -> None:
    async def main(loop: VirtualLoop) -> None:
        async with pair(loop) as (_, a, b):
            a.client.lose = True
            await until(lambda: b.lease.leads)
            assert a.lost_at[0] < b.gained_at[0]

    run_virtual(main)


def test_a_holder_that_is_cut_off_is_replaced_within_duration_and_a_pause() -> None:
    async def main(loop: VirtualLoop) -> None:
        async with pair(loop) as (_, a, b):
            cut = loop.time()
            a.client.lose = True
            await until(lambda: b.lease.leads)
            assert DURATION - RETRY - 0.1 <= loop.time() - cut <= DURATION + 1.1 * RETRY + 0.1

    run_virtual(main)


def test_an_api_server_that_hangs_ends_leadership_like_one_that_is_gone() -> None:
    async def main(loop: VirtualLoop) -> None:
        async with pair(loop) as (_, a, b):
            a.client.slow_s = 1000
            await until(lambda: b.lease.leads)
            assert a.lost_at[0] < b.gained_at[0]

    run_virtual(main)


def test_nobody_gains_while_the_api_server_is_away_for_all() -> None:
    async def main(loop: VirtualLoop) -> None:
        async with pair(loop) as (_, a, b):
            a.client.lose = b.client.lose = True
            await asyncio.sleep(100)
            assert not a.lease.leads
            assert not b.lease.leads
            a.client.lose = b.client.lose = False
            await until(lambda: a.lease.leads or b.lease.leads, within_s=RETRY + 1)

    run_virtual(main)


@pytest.mark.parametrize("skew_s", [-900_000.0, -20.0, 20.0, 900_000.0])
def test_clocks_that_differ_change_nothing(skew_s: float) -> None:
    async def main(loop: VirtualLoop) -> None:
        async with pair(loop, skew_s=skew_s) as (_, a, b):
            assert a.gained_at
            assert not b.gained_at
            a.client.lose = True
            await until(lambda: b.lease.leads)
            assert a.lost_at[0] < b.gained_at[0]

    run_virtual(main)


def test_a_clean_stop_gives_the_lease_back_after_lost_has_returned() -> None:
    async def main(loop: VirtualLoop) -> None:
        store = Store()
        a, b = Candidate(loop, store, "a", lost_s=1.0), Candidate(loop, store, "b")
        leading = asyncio.ensure_future(a.lease.run(a.gained, a.lost))
        await until(lambda: a.lease.leads)
        async with b.campaign():
            await asyncio.sleep(30)
            stopped = loop.time()
            await stop(leading)
            assert store.objects[PATH]["spec"]["holderIdentity"] == ""
            await until(lambda: b.lease.leads)
            assert a.lost_at[0] <= b.gained_at[0] <= stopped + 1.0 + RETRY + 0.1

    run_virtual(main)


def test_a_candidate_that_stops_leaves_the_holder_alone() -> None:
    async def main(loop: VirtualLoop) -> None:
        store = Store()
        async with Candidate(loop, store, "a").campaign() as a:
            await until(lambda: a.lease.leads)
            async with Candidate(loop, store, "b").campaign() as b:
                await asyncio.sleep(20)
            assert not b.lost_at
            await asyncio.sleep(20)
            assert a.lease.leads

    run_virtual(main)


def test_a_stalled_process_does_not_lead_when_it_wakes_up() -> None:
    async def main(loop: VirtualLoop) -> None:
        async with pair(loop) as (_, a, _b):
            assert a.lease.leads
            loop.now += RENEW + 1  # no task has run since
            assert not a.lease.leads

    run_virtual(main)


def test_the_deadline_counts_from_when_the_renewal_was_sent() -> None:
    async def main(loop: VirtualLoop) -> None:
        a = Candidate(loop, Store(), "a")
        a.client.slow_s = 4.0
        async with a.campaign():
            await until(lambda: a.lease.leads)
            loop.now += RENEW - 3.0
            assert not a.lease.leads

    run_virtual(main)


def test_a_renewal_whose_answer_is_lost_ends_nothing() -> None:
    async def main(loop: VirtualLoop) -> None:
        async with pair(loop) as (_, a, _b):
            a.client.deaf = True
            await asyncio.sleep(RENEW - 2 * RETRY)
            a.client.deaf = False
            await asyncio.sleep(3 * DURATION)
            assert a.lease.leads
            assert not a.lost_at

    run_virtual(main)


def test_somebody_elses_hand_on_the_lease_ends_leadership_at_the_next_renewal() -> None:
    async def main(loop: VirtualLoop) -> None:
        async with pair(loop) as (store, a, _b):
            taken = store.objects[PATH]
            taken["spec"]["holderIdentity"] = "somebody"
            store.put(PATH, taken)
            await until(lambda: bool(a.lost_at), within_s=RETRY + 0.1)

    run_virtual(main)


def test_a_change_of_labels_neither_ends_nor_prolongs_leadership() -> None:
    async def main(loop: VirtualLoop) -> None:
        async with pair(loop) as (store, a, b):
            a.client.lose = True
            for _ in range(math.ceil(DURATION + 2 * RETRY) + 1):
                store.put(PATH, store.objects[PATH])
                await asyncio.sleep(1)
            assert b.lease.leads

    run_virtual(main)


def test_a_deleted_lease_is_waited_for_as_if_it_were_there() -> None:
    async def main(loop: VirtualLoop) -> None:
        async with pair(loop) as (store, a, b):
            a.client.lose = True
            del store.objects[PATH]
            await until(lambda: b.lease.leads)
            assert a.lost_at[0] < b.gained_at[0]

    run_virtual(main)


def test_every_term_is_greater_than_the_one_before_also_after_the_lease_was_deleted() -> None:
    async def main(loop: VirtualLoop) -> None:
        async with pair(loop) as (store, a, b):
            terms = [a.lease.term]
            a.client.lose = True
            await until(lambda: b.lease.leads)
            terms.append(b.lease.term)
            a.client.lose, b.client.lose = False, True
            await until(lambda: a.lease.leads)
            terms.append(a.lease.term)
            b.client.lose = False
            del store.objects[PATH]
            await until(lambda: len(a.lost_at) == 2 and (a.lease.leads or b.lease.leads))
            terms.append(a.lease.term if a.lease.leads else b.lease.term)
            assert terms == sorted(set(terms))

    run_virtual(main)


def test_transitions_count_changes_of_hands() -> None:
    async def main(loop: VirtualLoop) -> None:
        async with pair(loop) as (store, a, b):
            assert store.objects[PATH]["spec"]["leaseTransitions"] == 0
            a.client.lose = True
            await until(lambda: b.lease.leads)
            assert store.objects[PATH]["spec"]["leaseTransitions"] == 1
            assert b.lease.term == Term(store.objects[PATH]["metadata"]["creationTimestamp"], 1)

    run_virtual(main)


def test_times_are_written_in_microseconds() -> None:
    async def main(loop: VirtualLoop) -> None:
        async with pair(loop) as (store, _a, _b):
            spec = store.objects[PATH]["spec"]
            assert all(re.fullmatch(r"\S+T\d\d:\d\d:\d\d\.\d{6}Z", spec[key]) for key in ("renewTime", "acquireTime"))

    run_virtual(main)


def test_acquire_time_stays_while_it_is_renewed() -> None:
    async def main(loop: VirtualLoop) -> None:
        async with pair(loop) as (store, _a, _b):
            before = store.objects[PATH]["spec"]
            await asyncio.sleep(10)
            after = store.objects[PATH]["spec"]
            assert before["acquireTime"] == after["acquireTime"]
            assert before["renewTime"] < after["renewTime"]

    run_virtual(main)


def test_two_candidates_of_one_name_are_two() -> None:
    async def main(loop: VirtualLoop) -> None:
        store = Store()
        async with Candidate(loop, store, "a").campaign() as first:
            await until(lambda: first.lease.leads)
            async with Candidate(loop, store, "a").campaign() as second:
                await asyncio.sleep(50)
                assert not second.gained_at

    run_virtual(main)


def test_what_gained_does_beside_the_renewals_may_take_long() -> None:
    async def main(loop: VirtualLoop) -> None:
        a = Candidate(loop, Store(), "a")
        task = asyncio.ensure_future(a.lease.run(lambda: asyncio.sleep(500), a.lost))
        await asyncio.sleep(400)
        assert a.lease.leads
        await stop(task)

    run_virtual(main)


def test_gained_is_cancelled_when_leadership_ends_before_it_does() -> None:
    async def main(loop: VirtualLoop) -> None:
        a, ended = Candidate(loop, Store(), "a"), []

        async def gained() -> None:
            try:
                await asyncio.sleep(1000)
            finally:
                ended.append(len(a.lost_at))

        task = asyncio.ensure_future(a.lease.run(gained, a.lost))
        await until(lambda: a.lease.leads)
        a.client.lose = True
        await until(lambda: bool(a.lost_at))
        assert ended == [0]
        await stop(task)

    run_virtual(main)


def test_a_takeover_that_fails_gives_the_lease_back_and_is_raised() -> None:
    async def main(loop: VirtualLoop) -> None:
        store = Store()
        a = Candidate(loop, store, "a")

        async def gained() -> None:
            raise RuntimeError("no room")

        with pytest.raises(RuntimeError, match="no room"):
            await a.lease.run(gained, a.lost)
        assert a.lost_at
        assert store.objects[PATH]["spec"]["holderIdentity"] == ""

    run_virtual(main)


def test_only_get_create_and_update_of_the_one_lease_are_used() -> None:
    async def main(loop: VirtualLoop) -> None:
        async with pair(loop) as (_, a, b):
            calls = {*a.client.calls, *b.client.calls}
            assert calls <= {("get", PATH), ("replace", PATH), ("create", PATH.rsplit("/", 1)[0])}

    run_virtual(main)


@pytest.mark.parametrize("times", [(15, 15, 2), (15, 10, 9), (0.5, 0.4, 0.1), (15, 10, 0)])
def test_times_that_allow_two_leaders_are_refused(times: tuple[float, float, float]) -> None:
    duration, renew, retry = times
    client = cast(Client, StoreClient(Store()))
    with pytest.raises(ValueError, match="lease times do not fit"):
        Lease(client, name="x", namespace="y", identity="z", duration_s=duration, renew_s=renew, retry_s=retry)


CUTS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["lose", "deaf", "slow_s"]), st.floats(0.1, 25), st.floats(0, 30)),
    min_size=1,
    max_size=8,
)


@pytest.mark.slow
@settings(max_examples=60)
@given(CUTS)
def test_whatever_is_cut_off_and_when_there_are_never_two(cuts: list[tuple[int, str, float, float]]) -> None:
    async def main(loop: VirtualLoop) -> None:
        store = Store()
        candidates = [Candidate(loop, store, name, skew_s=100.0 * i, lost_s=1.0) for i, name in enumerate("abc")]
        tasks = [asyncio.ensure_future(each.lease.run(each.gained, each.lost)) for each in candidates]
        for which, how, length, pause in cuts:
            await watch(candidates, pause)
            setattr(candidates[which].client, how, 7.0 if how == "slow_s" else True)
            await watch(candidates, length)
            setattr(candidates[which].client, how, 0.0 if how == "slow_s" else False)
        await until(lambda: any(each.lease.leads for each in candidates), within_s=DURATION + 2 * RETRY + 10)
        for task in tasks:
            await stop(task)

    async def watch(candidates: list[Candidate], for_s: float) -> None:
        end = asyncio.get_running_loop().time() + for_s
        while asyncio.get_running_loop().time() < end:
            assert sum(each.acts for each in candidates) <= 1
            assert sum(each.lease.leads for each in candidates) <= 1
            await asyncio.sleep(0.25)

    run_virtual(main)


def test_lost_is_not_called_by_a_candidate_that_never_gained() -> None:
    async def main(loop: VirtualLoop) -> None:
        a = Candidate(loop, Store(), "a")
        a.client.lose = True
        task = asyncio.ensure_future(a.lease.run(nothing, a.lost))
        await asyncio.sleep(100)
        await stop(task)
        assert not a.lost_at

    run_virtual(main)


def test_a_lease_that_is_not_read_any_more_is_told_after_its_duration() -> None:
    async def main(loop: VirtualLoop) -> None:
        store = Store()
        async with Candidate(loop, store, "a").campaign() as first:
            await until(lambda: first.acts)
            async with Candidate(loop, store, "b").campaign() as second:
                await asyncio.sleep(DURATION)
                assert second.lease.unreadable() is None
                second.client.lose = True
                await asyncio.sleep(DURATION + RETRY)
                said = str(second.lease.unreadable())
                assert re.fullmatch(r"the Lease rm-brain has not been read for 1[5-9] s", said)

    run_virtual(main)
