"""Features: parts of a run beyond the plain life of a task, each in a module of its own."""

from __future__ import annotations

from typing import Final

from rm_emulator.engine.features.checkpoints import Checkpoints
from rm_emulator.engine.features.copies import Copies
from rm_emulator.engine.features.data import DataFeature, DataOfCopies
from rm_emulator.engine.features.disorder import DisorderFeature
from rm_emulator.engine.features.early import EarlyContainers
from rm_emulator.engine.features.executors import KeptExecutors
from rm_emulator.engine.features.failing_masters import FailingMasters
from rm_emulator.engine.features.failing_tasks import FailingTasks
from rm_emulator.engine.features.feature import Feature
from rm_emulator.engine.features.node_faults import NodeFaults
from rm_emulator.engine.features.overbooking import Overbooking
from rm_emulator.engine.features.restarts import Restarts
from rm_emulator.engine.features.services import ServicesFeature
from rm_emulator.engine.features.speculation import Speculation
from rm_emulator.engine.features.startup import Startup
from rm_emulator.engine.features.unlike import UnlikeNodes
from rm_emulator.engine.features.waiting_masters import WaitingMasters
from rm_emulator.engine.profile import Engine

#: In the order in which a hook asks them. A grant waits for its executor, then for its start-up, which disorder delays,
#: then for data, and at last for parents behind shares.
_ALL: Final[tuple[type[Feature], ...]] = (
    KeptExecutors,
    Startup,
    DisorderFeature,
    DataFeature,
    DataOfCopies,
    EarlyContainers,
    UnlikeNodes,
    Restarts,
    FailingMasters,
    NodeFaults,
    FailingTasks,
    Checkpoints,
    Overbooking,
    ServicesFeature,
    WaitingMasters,
    Copies,
    Speculation,
)


def features_of(engine: Engine) -> list[Feature]:
    """The features of this run."""
    return [feature(engine) for feature in _ALL if feature.is_in(engine)]
