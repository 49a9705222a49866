"""Group `kubernetes`: the extender's latency, cold start, and what a real control plane does; a module for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Final

from benchmarks.rows import Row, benchmark, cannot_run
from devcluster.binaries import NoBinaries

#: Modules of `benchmarks.kubernetes`, each with `rows`.
PARTS: Final = ("latency", "beside", "rounds", "cold_start", "cluster", "gang", "burst", "failover")


def _measuring(part: str) -> Callable[[bool], Iterator[Row]]:
    def measured(tiny: bool) -> Iterator[Row]:
        """The part's rows; without a control plane one row without a value that says so."""
        try:
            yield from import_module(f"benchmarks.kubernetes.{part}").rows(tiny=tiny)
        except NoBinaries as error:
            yield cannot_run(part, str(error))

    return measured


for _part in PARTS:
    benchmark(_part, "kubernetes")(_measuring(_part))
