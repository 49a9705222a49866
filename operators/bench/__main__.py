"""`python -m operators.bench [--tiny] [GROUP ...]`: rows as JSON, one per line, as they are measured."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterator
from typing import Final

import msgspec

from operators.bench.row import Row
from operators.devcluster.binaries import NoBinaries

#: Modules of this package, each with `rows`.
GROUPS: Final = ("latency", "cold_start", "cluster", "gang", "burst", "failover")


def main() -> int:
    """0, also where a group cannot run: its row says why."""
    parser = argparse.ArgumentParser(prog="python -m operators.bench", description=__doc__)
    parser.add_argument("--tiny", action="store_true", help="the smallest sizes: does it work?")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"of {', '.join(GROUPS)}; all of them by default")
    asked = parser.parse_args()
    if unknown := [name for name in asked.groups if name not in GROUPS]:
        parser.error(f"there is no group {unknown[0]!r} (expected {', '.join(GROUPS)})")
    for group in asked.groups or GROUPS:
        for row in measured(group, tiny=asked.tiny):
            sys.stdout.write(msgspec.json.encode(row).decode() + "\n")
            sys.stdout.flush()
    return 0


def measured(group: str, *, tiny: bool) -> Iterator[Row]:
    """Rows of a group; where there is no control plane, or no extra `k8s`, one without a value, with the reason."""
    try:
        yield from importlib.import_module(f"operators.bench.{group}").rows(tiny=tiny)
    except NoBinaries as error:
        yield Row(name=group, value=None, unit="", note=f"cannot run: {error}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] in ("operators", "schedulers"):
            raise  # a mistake of ours
        why = f"cannot run: no module {error.name}; install the extra k8s (pip install 'rm-emulator[k8s]')"
        yield Row(name=group, value=None, unit="", note=why)


if __name__ == "__main__":
    sys.exit(main())
