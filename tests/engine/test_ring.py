"""Heartbeats from one ring: by time, then by node; sleepers keep their phase."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from rm_emulator.engine import ring
from rm_emulator.engine.calendar import END, START, Calendar
from rm_emulator.engine.ring import Ring


class Beats:
    """A ring that notes who beats when, until `until`."""

    def __init__(
        self, phases: list[int], *, interval: int = 1000, until: int = 2500, idle: Callable[[], bool] | None = None
    ) -> None:
        self.calendar = Calendar()
        self.heard: list[tuple[int, int]] = []
        self.until = until
        self.then: Callable[[int], None] = lambda node: None
        self.ring = Ring(self.calendar, phases, interval, self._beat, idle=idle, let_pass=self._let_pass)

    def _beat(self, node: int) -> None:
        self.heard.append((self.calendar.now, node))
        self.then(node)

    def _let_pass(self, beats: Sequence[tuple[int, int]]) -> None:
        self.heard += beats

    def run(self, *nodes: int) -> list[tuple[int, int]]:
        self.ring.add_all(nodes)
        self.ring.arm()
        self.calendar.run(until=self.until)
        return self.heard

    def at(self, when: int, do: Callable[[], None], rank: int = END) -> None:
        def call(_: object) -> None:
            do()
            self.ring.arm()

        self.calendar.at(when, rank, 0, call)


def test_each_node_beats_at_its_phase_in_every_interval() -> None:
    assert Beats([300, 100, 700]).run(0, 1, 2) == [
        (100, 1), (300, 0), (700, 2), (1100, 1), (1300, 0), (1700, 2), (2100, 1), (2300, 0),
    ]  # fmt: skip


def test_equal_phases_go_by_node() -> None:
    assert Beats([5, 5, 5], until=10).run(2, 0, 1) == [(5, 0), (5, 1), (5, 2)]


def test_phase_zero_beats_at_once() -> None:
    assert Beats([0], until=1500).run(0) == [(0, 0), (1000, 0)]


def test_only_members_beat() -> None:
    assert Beats([300, 100], until=1000).run(0) == [(300, 0)]


def test_a_sleeper_that_comes_back_keeps_its_phase() -> None:
    beats = Beats([300, 100])
    beats.at(500, lambda: beats.ring.discard(0))
    beats.at(1500, lambda: beats.ring.add(0))
    assert beats.run(0) == [(300, 0), (2300, 0)]


def test_one_that_is_added_before_its_turn_in_this_instant_beats_in_it() -> None:
    beats = Beats([300, 300], until=1000)
    beats.at(300, lambda: beats.ring.add(0))
    assert beats.run(1) == [(300, 0), (300, 1)]


def test_one_that_is_added_after_its_turn_waits_a_whole_interval() -> None:
    beats = Beats([300, 300], until=1400)

    def add_the_other(node: int) -> None:
        beats.ring.add(0)

    beats.then = add_the_other
    assert beats.run(1) == [(300, 1), (1300, 0), (1300, 1)]


def test_out_of_band_the_interval_is_counted_from_there() -> None:
    beats = Beats([300, 900], until=2600)
    beats.at(550, lambda: beats.ring.beat_now(0))
    assert beats.run(0) == [(300, 0), (550, 0), (1550, 0), (2550, 0)]


def test_a_sleeper_may_beat_out_of_band_and_sleeps_on() -> None:
    beats = Beats([300])
    beats.at(550, lambda: beats.ring.beat_now(0))
    assert beats.run() == [(550, 0)]


def test_out_of_band_beats_of_one_instant_go_by_node_with_the_others() -> None:
    beats = Beats([550, 100, 900], until=1000)
    beats.at(550, lambda: beats.ring.beat_now(2), rank=START)
    beats.at(550, lambda: beats.ring.beat_now(1), rank=END)
    assert beats.run(0, 1, 2) == [(100, 1), (550, 0), (550, 1), (550, 2)]


def test_when_all_sleep_nothing_is_on_the_calendar() -> None:
    beats = Beats([300, 600], until=9000)
    beats.then = lambda node: beats.ring.clear()
    assert beats.run(0, 1) == [(300, 0)]
    assert len(beats.ring) == 0


def test_many_are_added_as_one_by_one() -> None:
    phases = [(37 * i) % 1000 for i in range(50)]
    many, single = Beats(phases), Beats(phases)
    for node in range(50):
        single.ring.add(node)
    assert many.run(*range(50)) == single.run()


def test_membership() -> None:
    ring = Beats([1, 2]).ring
    ring.add(1)
    ring.add(1)
    assert (len(ring), 0 in ring, 1 in ring) == (1, False, True)


CHANGES = st.tuples(
    st.integers(0, 2400), st.sampled_from([START, END]), st.sampled_from(["add", "discard", "beat_now"])
)


@given(
    st.lists(st.integers(0, 999), min_size=1, max_size=6),
    st.lists(st.tuples(CHANGES, st.integers(0, 5)), max_size=8),
    st.lists(st.booleans(), min_size=1, max_size=4),
    st.integers(1, 5),
)
@settings(max_examples=200, deadline=None)
def test_beats_that_pass_together_are_those_of_one_by_one(phases, changes, answers, together) -> None:
    def run(idle: Callable[[], bool] | None) -> list[tuple[int, int]]:
        beats = Beats([*phases], idle=idle)  # the ring changes them
        for (when, rank, change), node in changes:
            do = getattr(beats.ring, change)
            beats.at(when, lambda do=do, node=node: do(node % len(phases)), rank=rank)
        return beats.run(*range(len(phases)))

    again = cycle(answers)
    with mock.patch.object(ring, "_TOGETHER", together):
        assert run(lambda: next(again)) == run(None)
