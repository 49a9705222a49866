"""`rm-emulator bench`: how fast it is, each figure beside a reference measured in the same run."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from rm_emulator.issues import InvalidInput, Issue, did_you_mean
from rm_emulator.lab.bench.rows import BENCHMARKS, Benchmark
from schedulers.core.errors import nearest
from schedulers.core.registry import discover


def main(name: str | None = None, json: bool = False) -> int:
    """Run all benchmarks, a group (`engine`, `learned`, `policies`, ...) or a single one, and print the rows.

    Returns 0 whatever was measured: a target that is missed on a busy machine is news, not an error; `met` tells.
    Raises InvalidInput for an unknown name.
    """
    rows = run(None if name is None else [name], progress=True)
    if json:
        import json as encoder

        print(encoder.dumps(rows, indent=1, allow_nan=False))  # noqa: T201 (the answer)
    else:
        _show(rows)
    return 0


def run(names: Iterable[str] | None = None, *, tiny: bool = False, progress: bool = False) -> list[dict[str, Any]]:
    """Rows `{name, value, unit, reference, ratio, target, met, note}` of the benchmarks or groups of these names.

    names: None for all. tiny: smallest sizes, to see that everything works. progress: say on standard error
    what is being measured. Raises InvalidInput for an unknown name.
    """
    rows = []
    for benchmark in _chosen(names):
        if progress:
            print(f"{benchmark.group}: {benchmark.name} ...", file=sys.stderr, flush=True)  # noqa: T201
        rows += [row.plain() for row in benchmark.run(tiny)]
    return rows


def known() -> Mapping[str, Benchmark]:
    """All benchmarks by name."""
    discover("rm_emulator.lab.bench.groups")
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


def _show(rows: list[dict[str, Any]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("benchmark", "value", "unit", "reference", "ratio", "target", ""):
        table.add_column(column, justify="right" if column in ("value", "reference", "ratio") else "left")
    marks = {True: "[green]met[/]", False: "[red]missed[/]", None: ""}
    for row in rows:
        table.add_row(
            row["name"],
            _number(row["value"]),
            row["unit"],
            _number(row["reference"]),
            _number(row["ratio"]),
            row["target"] or "",
            marks[row["met"]],
        )
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    console.print(table)
    for row in rows:
        if row["note"]:
            console.print(f"[dim]{row['name']}: {row['note']}[/]", soft_wrap=True)


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"
