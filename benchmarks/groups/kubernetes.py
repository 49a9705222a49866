"""Group `kubernetes`: the extender's latency, cold start, and what a real control plane does; a module for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Final

from benchmarks.rows import Row, benchmark
from devcluster.binaries import NoBinaries

#: Modules of `benchmarks.kubernetes`, each with `rows`.
PARTS: Final = ("latency", "cold_start", "cluster", "gang", "burst", "failover")
_OURS: Final = ("benchmarks", "devcluster", "operators", "schedulers")


def _measuring(part: str) -> Callable[[bool], Iterator[Row]]:
    def measured(tiny: bool) -> Iterator[Row]:
        """The part's rows; without a control plane, or the extra `k8s`, one row without a value that says so."""
        try:
            yield from import_module(f"benchmarks.kubernetes.{part}").rows(tiny=tiny)
        except NoBinaries as error:
            yield Row(name=part, value=None, unit="", note=f"cannot run: {error}")
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] in _OURS:
                raise  # a mistake of ours
            why = f"cannot run: no module {error.name}; install the extra k8s (pip install 'rm-emulator[k8s]')"
            yield Row(name=part, value=None, unit="", note=why)

    return measured


for _part in PARTS:
    benchmark(_part, "kubernetes")(_measuring(_part))
