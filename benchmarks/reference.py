"""What everything is measured against: a bare SimPy loop on the same machine, in the same minute.

Times are CPU times of this process, which equal wall times on an idle machine: everything measured here computes
on one core and waits for nothing, and on a shared machine the wall clock mostly measures the neighbours.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Final

import msgspec
import simpy

#: Bare events of a measurement: a tenth of a second or more, long enough for a steady rate.
EVENTS: Final = 100_000
_LEAST: Final = 10_000


class Paired(msgspec.Struct, frozen=True):
    """Medians over repetitions. measured and reference per s; ratio: median of the ratios, not ratio of medians."""

    measured: float
    reference: float
    ratio: float


def simpy_events_per_s(events: int = EVENTS) -> float:
    """Events per CPU second of one SimPy process that only waits: each event one Timeout."""
    environment = simpy.Environment()

    def wait() -> Generator[simpy.Event, None, None]:
        for _ in range(events):
            yield environment.timeout(1)

    environment.process(wait())
    begun = time.process_time()
    environment.run()
    return events / (time.process_time() - begun)


def paired(measure: Callable[[], float], *, repetitions: int, facts: Callable[[], int]) -> Paired:
    """A rate beside bare SimPy's: each repetition runs SimPy, the measured thing, and SimPy again.

    measure: runs and returns a rate. facts: how many facts that run had; SimPy does as many events, half of
    them before (as many as in the last run; EVENTS the first time) and half of them after.
    The machine's speed drifts by tens of percent within seconds where cores are shared; the mean of the
    references before and after is what the run in between could have had.
    """
    rates, references, ratios = [], [], []
    events = EVENTS
    for _ in range(repetitions):
        with quiet():
            before = simpy_events_per_s(events)
            rate = measure()
            events = max(_LEAST, facts() // 2)
            reference = (before + simpy_events_per_s(events)) / 2
        rates.append(rate)
        references.append(reference)
        ratios.append(rate / reference)
    return Paired(statistics.median(rates), statistics.median(references), statistics.median(ratios))


@contextmanager
def quiet() -> Iterator[None]:
    """Begin with an empty garbage list, so that one measurement does not pay for the one before it."""
    gc.collect()
    yield
