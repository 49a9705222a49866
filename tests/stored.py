"""What this version writes to disk, one file or folder for each kind, so that later ones can show that they read it.

    python -m tests.stored FOLDER

`tests/data` has what the program of each format wrote: a new format gets a new file beside the older ones.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import numpy as np

from rm_emulator.workload import storage
from schedulers.core.events import ContainerEnded, ContainerStarted, Event, Heartbeat, JobSubmitted, NodeAdded
from schedulers.core.log import FORMAT, Log, SchedulerConfig
from schedulers.core.model import Node
from schedulers.core.scheduler import Scheduler
from schedulers.learned.weights import OrderSizes, Weights, initial, pack
from tests.workload import samples_stored
from tests.workload.samples_stored import WORKLOAD

CONFIG: Final = SchedulerConfig(
    resources=WORKLOAD.resources, policy={"kind": "srpt"}, predictor={"kind": "slearn"}, offers="heartbeat"
)
#: What a scheduler has heard when its snapshot is taken, and what it hears then.
HEARD: Final[tuple[Event, ...]] = (
    NodeAdded(0, Node(id="n1", capacity=(4000, 4096, 4))),
    *(JobSubmitted(entry.submit_ms, entry.job) for entry in WORKLOAD.jobs),
    Heartbeat(1000, "n1"),
)
LATER: Final[tuple[Event, ...]] = (
    *(ContainerStarted(1100 + number, number) for number in range(1, 17)),
    *(ContainerEnded(2000 + number, number, runtime_ms=900) for number in range(1, 17)),
    Heartbeat(3000, "n1"),
)


def scheduler(log: Log | None = None) -> Scheduler:
    """One that has heard HEARD."""
    made = Scheduler(CONFIG, log=log)
    for event in HEARD:
        made.handle(event)
    return made


def log() -> bytes:
    """The lines of a scheduler that hears HEARD and LATER."""
    chunks: list[bytes] = []
    log = Log(chunks.append)
    made = scheduler(log)
    for event in LATER:
        made.handle(event)
    log.flush()
    return b"".join(chunks)


def weights() -> Weights:
    """Of a small network, drawn."""
    return initial(OrderSizes(embedding=2, hidden=(3,), heads=(2,), layers=1), np.random.default_rng(1))


def write(folder: Path) -> None:
    """Write one of each kind."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"snapshot-{FORMAT}.msgpack").write_bytes(scheduler().snapshot())
    (folder / f"log-{FORMAT}.jsonl").write_bytes(log())
    (folder / "weights-3.safetensors").write_bytes(pack(weights()))
    storage.save(
        WORKLOAD, folder / "workload-2", profiles=samples_stored.PROFILES, notes=samples_stored.NOTES, overwrite=True
    )


if __name__ == "__main__":
    write(Path(sys.argv[1]))
