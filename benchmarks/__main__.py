"""`python -m benchmarks [--tiny] [--json] [NAME ...]`: what `rm-emulator bench` runs."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.run import run
from rm_emulator.program import end


def main(arguments: list[str] | None = None) -> None:
    """Print the rows of all benchmarks, or of those that are named, by group, benchmark or row.

    A target that is missed on a busy machine is news and no error: `met` says so. Ends with 2 where nothing that was
    asked for by name can run here. Raises InvalidInput for an unknown name.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--tiny", action="store_true", help="the smallest sizes: does it work?")
    parser.add_argument("--json", action="store_true", help="rows as one JSON document")
    asked = parser.parse_args(arguments)
    rows = run(asked.names or None, tiny=asked.tiny, progress=True)
    if asked.json:
        print(json.dumps(rows, indent=1, allow_nan=False))  # noqa: T201 (the answer)
    else:
        _show(rows)
    if asked.names and all(row["value"] is None for row in rows):  # `note` says what is missing
        sys.exit(2)


def _show(rows: list[dict[str, Any]]) -> None:
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
            console.print(f"{row['name']}: {row['note']}", style="dim", markup=False, soft_wrap=True)


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"


if __name__ == "__main__":
    end(main)
