"""`python -m devcluster build | up | status | down | demo | chart`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from devcluster import binaries
from devcluster.chart import write_chart
from devcluster.cluster import Broken, Devcluster
from devcluster.demo import demo
from devcluster.installation import install, run_installed, uninstall

_FOLDER = Path(tempfile.gettempdir()) / "rm-devcluster"


def main() -> int:
    """0: done; 1: something is down; 2: it cannot be."""
    parser = argparse.ArgumentParser(prog="python -m devcluster", description=__doc__)
    parser.add_argument("command", choices=("build", "up", "run", "status", "down", "demo", "chart"))
    parser.add_argument("--dir", type=Path, default=_FOLDER, help=f"where it lives (default: {_FOLDER})")
    parser.add_argument("--nodes", type=int, default=4, help="so many fake nodes (default: 4)")
    parser.add_argument("--cpu", default="8", help="of each node (default: 8)")
    parser.add_argument("--memory", default="32Gi", help="of each node (default: 32Gi)")
    parser.add_argument(
        "--version",
        choices=(binaries.OLDER, binaries.MADE_FOR, binaries.NEWER),
        default=binaries.VERSION,
        help=f"of Kubernetes (default: {binaries.VERSION})",
    )
    parser.add_argument("--helm", action="store_true", help="build Helm as well, which installs our chart")
    asked = parser.parse_args()
    try:
        return _do(asked)
    except (binaries.NoBinaries, Broken, RuntimeError) as error:
        sys.stderr.write(f"{error}\n")
        return 2


def _do(asked: argparse.Namespace) -> int:
    if asked.command == "build":
        binaries.build_all(asked.version, (*binaries.PROGRAMS, *([binaries.HELM] if asked.helm else [])))
        sys.stdout.write(f"{binaries.cache(asked.version)}\n")
        return 0
    if asked.command == "demo":
        return demo()
    if asked.command == "chart":
        write_chart(binaries.need(build=False)["kubectl"])
        return 0
    cluster = Devcluster(asked.dir, version=asked.version)
    match asked.command:
        case "up":
            cluster.up(nodes=asked.nodes, cpu=asked.cpu, memory=asked.memory, reserved=True)
            install(cluster)
            sys.stderr.write(f"brain, kube-scheduler, controllers and {asked.nodes} nodes are ready. Use them with:\n")
            sys.stdout.write(f"export KUBECONFIG={cluster.kubeconfig}\n")
        case "run":
            run_installed(cluster)
        case "down":
            uninstall(cluster)
            cluster.remove()
        case _:
            return _status(cluster)
    return 0


def _status(cluster: Devcluster) -> int:
    parts = cluster.status()
    for part, pid in parts.items():
        sys.stdout.write(f"{part:20} {'down' if pid is None else f'runs (pid {pid})'}\n")
    needed = [pid for part, pid in parts.items() if part != "scheduler"]
    return 0 if all(needed) else 1


if __name__ == "__main__":
    sys.exit(main())
