"""`python -m operators.bench [--tiny]`: all rows as JSON, one per line, as they are measured."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator

import msgspec

from operators.bench import cluster, cold_start, failover, gang, latency
from operators.bench.row import Row
from operators.devcluster.binaries import NoBinaries


def main() -> int:
    """0; 2 where there is no control plane to measure on."""
    parser = argparse.ArgumentParser(prog="python -m operators.bench", description=__doc__)
    parser.add_argument("--tiny", action="store_true", help="the smallest sizes: does it work?")
    asked = parser.parse_args()
    groups: list[Callable[..., Iterator[Row]]] = [latency.rows, cold_start.rows, cluster.rows, gang.rows, failover.rows]
    try:
        for rows in groups:
            for row in rows(tiny=asked.tiny):
                sys.stdout.write(msgspec.json.encode(row).decode() + "\n")
                sys.stdout.flush()
    except NoBinaries as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
