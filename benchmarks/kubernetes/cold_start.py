"""How long a brain needs from nothing to its first decision: 5,000 nodes and 50,000 pods from a recorded list."""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from benchmarks.kubernetes import recorded
from benchmarks.kubernetes.server import DetachedBrain
from benchmarks.rows import Row
from operators.extender.takeover import take_over


def rows(*, tiny: bool = False) -> Iterator[Row]:
    """In a process of its own, so that its memory is its own."""
    nodes, pods = (50, 500) if tiny else (5000, 50_000)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "recorded.jsonl.gz"
        recorded.write(file, recorded.build(nodes, pods))
        command = [sys.executable, "-m", "benchmarks.kubernetes.cold_start", str(file)]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603 - our own
    took, memory, noted = msgspec.json.decode(said, type=tuple[float, float, int])
    note = f"decompressed, decoded, cached and taken over by the core; {noted} containers and foreign pods noted"
    yield Row(name=f"cold_start_{nodes}_nodes_{pods}_pods", value=took, unit="s", target="<= 30", note=note)
    yield Row(name="cold_start_memory", value=memory, unit="MB", target="<= 500", note="peak of the whole process")


async def _start(file: Path) -> tuple[float, float, int]:
    began = time.perf_counter()
    brain = DetachedBrain()
    await recorded.feed(brain.cache, file)
    take_over(brain, identity="bench", pods={}, history=())
    brain.cycle()
    took = time.perf_counter() - began
    state = brain.scheduler.state
    noted = len(state.containers) + sum(len(node.foreign) for node in state.nodes.values())
    return took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, noted


if __name__ == "__main__":
    sys.stdout.write(msgspec.json.encode(asyncio.run(_start(Path(sys.argv[1])))).decode())
