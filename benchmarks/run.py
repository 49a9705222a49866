"""Finds benchmarks by name and runs them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from benchmarks.rows import BENCHMARKS, Benchmark
from rm_emulator.issues import InvalidInput, Issue, did_you_mean
from schedulers.core.errors import nearest
from schedulers.core.registry import discover


def run(names: Iterable[str] | None = None, *, tiny: bool = False, progress: bool = False) -> list[dict[str, Any]]:
    """Rows `{name, value, unit, reference, ratio, target, met, note}` of the benchmarks or groups of these names.

    names: None for all. tiny: smallest sizes, to see that everything works. progress: say on standard error
    what is being measured. Raises InvalidInput for an unknown name.
    """
    rows = []
    for benchmark in _chosen(names):
        if progress:
            print(f"{benchmark.group}: {benchmark.name} ...", file=sys.stderr, flush=True)  # noqa: T201
        rows += [row.plain() for row in benchmark.rows(tiny)]
    return rows


def known() -> Mapping[str, Benchmark]:
    """All benchmarks by name."""
    discover("benchmarks.groups")
    return BENCHMARKS


def _chosen(names: Iterable[str] | None) -> list[Benchmark]:
    every = known()
    if names is None:
        return list(every.values())
    chosen: dict[str, Benchmark] = {}
    for name in names:
        # A row's name is its benchmark's, with more behind it where one benchmark yields several.
        meant = {key: b for key, b in every.items() if name in (key, b.group)} or {
            key: every[key]
            for key in sorted((k for k in every if name.startswith((f"{k}_", f"{k}/"))), key=len, reverse=True)[:1]
        }
        if not meant:
            accepted = list(dict.fromkeys([*(b.group for b in every.values()), *every]))
            message = f"no benchmark or group '{name}' (there are: {', '.join(accepted)})"
            raise InvalidInput([Issue("bench", message, hint=did_you_mean(nearest(name, accepted)))])
        chosen |= meant
    return list(chosen.values())
