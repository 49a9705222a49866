"""`python -m operators.bench [--tiny] [GROUP ...]`: rows as JSON, one per line, as they are measured."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from operators.bench import burst, cluster, cold_start, failover, gang, latency
from operators.bench.row import Row
from operators.devcluster.binaries import NoBinaries

_GROUPS: Final[dict[str, Callable[..., Iterator[Row]]]] = {
    "latency": latency.rows,
    "cold_start": cold_start.rows,
    "cluster": cluster.rows,
    "gang": gang.rows,
    "burst": burst.rows,
    "failover": failover.rows,
}


def main() -> int:
    """0; 2 where there is no control plane to measure on."""
    parser = argparse.ArgumentParser(prog="python -m operators.bench", description=__doc__)
    parser.add_argument("--tiny", action="store_true", help="the smallest sizes: does it work?")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"of {', '.join(_GROUPS)}; all of them by default")
    asked = parser.parse_args()
    if unknown := [name for name in asked.groups if name not in _GROUPS]:
        parser.error(f"there is no group {unknown[0]!r} (expected {', '.join(_GROUPS)})")
    try:
        for name in asked.groups or _GROUPS:
            for row in _GROUPS[name](tiny=asked.tiny):
                sys.stdout.write(msgspec.json.encode(row).decode() + "\n")
                sys.stdout.flush()
    except NoBinaries as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
