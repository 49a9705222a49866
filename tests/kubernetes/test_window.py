"""The window of released pods, against binders of every speed: it keeps them busy, and nobody waits long in them."""

from __future__ import annotations

from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st

from operators.extender.window import FLOOR, TARGET_S, Window


class Binder:
    """Binds `rate` pods a second in the order of their release, each `least_s` after it at the soonest."""

    def __init__(self, rate: float, least_s: float) -> None:
        self.rate, self.least_s, self.now = rate, least_s, 0.0
        self.window = Window(lambda: self.now)
        self.queue: deque[tuple[str, float]] = deque()
        self.waits: list[float] = []
        self._released, self._free = 0, 0.0

    def run(self, seconds: float) -> int:
        """While there are always more pods to release; returns how many were bound."""
        before, until = len(self.waits), self.now + seconds
        while self.now < until:
            while self.window.is_open:
                self._release()
            uid, at = self.queue[0]
            self._free = max(self._free + 1 / self.rate, at + self.least_s)
            if self._free > until:
                self._free -= 1 / self.rate
                break
            self.queue.popleft()
            self.now = self._free
            self.waits.append(self.now - at)
            self.window.bound(uid)
        self.now = until
        return len(self.waits) - before

    def stop(self, seconds: float) -> None:
        """Nothing is bound for so long."""
        self.now += seconds
        self._free = self.now
        while self.window.is_open:
            self._release()

    def _release(self) -> None:
        uid = str(self._released)
        self._released += 1
        self.window.sent(uid)
        self.queue.append((uid, self.now))


RATES, LEAST = st.floats(5, 500), st.floats(0.01, 0.5)


@settings(max_examples=20)
@given(rate=RATES, least_s=LEAST)
def test_a_binder_is_kept_busy(rate: float, least_s: float) -> None:
    binder = Binder(rate, least_s)
    binder.run(10)
    assert binder.run(20) >= 0.95 * 20 * rate - 2


@settings(max_examples=20)
@given(rate=RATES, least_s=LEAST)
def test_nobody_waits_longer_in_the_binder_than_the_smallest_window_takes_and_twice_the_target(
    rate: float, least_s: float
) -> None:
    binder = Binder(rate, least_s)
    binder.run(30)
    assert max(binder.waits) <= FLOOR / rate + 2 * TARGET_S + 2 * least_s + 2 / rate


@settings(max_examples=20)
@given(before=RATES, after=RATES)
def test_a_binder_that_changes_its_speed_is_followed(before: float, after: float) -> None:
    binder = Binder(before, 0.05)
    binder.run(20)
    binder.rate = after
    binder.run(20 + 3 * len(binder.queue) / after)
    binder.waits.clear()
    assert binder.run(20) >= 0.95 * 20 * after - 2
    assert max(binder.waits) <= FLOOR / after + 2 * TARGET_S + 2 * 0.05 + 2 / after


@settings(max_examples=20)
@given(rate=RATES)
def test_to_a_binder_that_has_stopped_nothing_more_is_released_and_it_is_kept_busy_when_it_comes_back(
    rate: float,
) -> None:
    binder = Binder(rate, 0.05)
    binder.run(20)
    before = len(binder.queue)
    binder.stop(60)
    assert len(binder.queue) <= max(before, binder.window.size + 1)
    binder.run(20)
    assert binder.run(20) >= 0.95 * 20 * rate - 2


@settings(max_examples=20)
@given(rate=RATES, backlog=st.integers(1, 5000))
def test_after_a_restart_what_an_earlier_brain_has_released_is_no_reason_to_release_more(
    rate: float, backlog: int
) -> None:
    """It waits before what is released now, which is seen to take long."""
    binder = Binder(rate, 0.05)
    for number in range(backlog):
        binder.queue.append((f"earlier-{number}", 0.0))
    binder.run(backlog / rate)
    assert binder.window.size <= 2 * FLOOR or backlog / rate <= 2 * TARGET_S
    binder.run(20)
    assert binder.run(20) >= 0.95 * 20 * rate - 2


def test_who_is_given_up_makes_room() -> None:
    window = Window(lambda: 0.0, floor=1)
    window.sent("a")
    assert not window.is_open
    window.drop("a")
    assert window.is_open
    assert window.size == 1
