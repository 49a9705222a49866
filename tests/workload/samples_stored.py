"""A workload with all that format 1 could keep; `tests/data/workload-N` is what each format wrote of it."""

from __future__ import annotations

from typing import Final

from rm_emulator.workload.model import Drawn, Fixed, PerNode, PerTask, Waves, Workload, WorkloadJob
from rm_emulator.workload.profiles import JobProfile, TpchProfiles, measured_stage
from schedulers.core.model import Edge, Job, PastJob, Stage, Wish, Wishes

_STAGES: Final = (
    Stage(name="a", tasks=2, demand=(1000, 1024, 0), hosts=(("n1", "n2"), ())),
    Stage(name="b", tasks=2, demand=(0, 5, 1), parents=(Edge(parent=0, data=10**15),), hint_ms=7, gang=True),
    Stage(name="c", tasks=1, demand=(1, 0, 0), parents=(0, 1)),
    Stage(name="d", tasks=9, demand=(1, 0, 0)),
    Stage(name="e", tasks=2, demand=(1, 0, 0), hosts=(("n1",),)),
)
_WISHES: Final = Wishes(
    prefer=(Wish(device="gpu", worth=8.0), Wish(rack="r1", same_rack=True, spread=True, slowdown=1.5)),
    value=2.0,
    budget_ms=90_000,
)
FULL: Final = WorkloadJob(
    job=Job(
        id="j1", stages=_STAGES, name="n", user="u", app="x", queue="q", weight=2.5, deadline=60_000, wishes=_WISHES
    ),
    submit_ms=4,
    runtimes=(
        Fixed(5),
        PerTask((3, 4)),
        Drawn(2.5, 0.1, "gamma"),
        Waves("tpch-2g-q1", 0, 0.5),
        PerNode(("n1", "n2", "n3"), ((1, 2, 3), (4, 5, 6))),
    ),
    am=(500, 64, 0),
    usage=tuple(tuple(2 * amount for amount in stage.demand) for stage in _STAGES),
    apart=1.5,
)
_PLAIN: Final = WorkloadJob(
    job=Job(id="j2", stages=(Stage(name="s", tasks=3, demand=(1, 1, 0)),)), submit_ms=9, runtimes=(Fixed(1),)
)
WORKLOAD: Final = Workload(
    name="all of format 1",
    jobs=(FULL, _PLAIN),
    history=(
        PastJob(name="n", submitted=-90, finished=-5, stages=((3, 1.5), (1, 2.0)), user="u", app="x", demand=(1, 2, 0)),
        PastJob(name="m", submitted=-50, finished=-1, stages=((1, 0.5),)),
    ),
    resources=("cpu", "memory", "gpu"),
    source="made up",
)
NOTES: Final = ("one left out",)
PROFILES: Final = TpchProfiles(
    [JobProfile(query=1, size_gb=2, stages=(measured_stage(1, [], {5: [4]}, {5: [4]}, {5: []}),))], source="made up"
)
