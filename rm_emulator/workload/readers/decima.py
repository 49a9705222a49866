"""TPC-H jobs made of the profiles of Decima."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec

from rm_emulator.workload.formats import Column, Contents, Trace, register
from rm_emulator.workload.profile_files import RELEASE, read_profiles
from rm_emulator.workload.tpch import AtLeastOne, TpchSettings, generate


@register("decima", source=f"{RELEASE}; Decima, SIGCOMM 2019, section 7.1")
class Decima:
    """TPC-H jobs with task durations measured on Spark, as released (NumPy files) or as JSON.

    Input: the folder `spark_env/tpch` of hongzimao/decima-sim (`2g/adj_mat_1.npy`, `2g/task_duration_1.npy`, ...), or
    one JSON file `{"source", "queries": [{"query", "size", "edges", "stages": [{"tasks", "fresh_durations",
    "first_wave", "rest_wave"}]}]}`. The `.npy` files are pickles, and a pickle is a program: an unpickler that knows
    only the four names of an array reads them, and refuses everything else. Conversion makes each query at each size
    once, or `jobs` of them at random, and stores the full profiles with the workload.
    """

    columns = (
        Column("{2g..100g}/adj_mat_Q.npy", "1 at [i, j] where stage j needs stage i", required=True),
        Column(
            "{2g..100g}/task_duration_Q.npy", "stage -> wave -> number of executors -> durations in ms", required=True
        ),
    )

    contents = Contents.lacking(
        "gangs",
        "gpu",
        "queue",
        "dates",
        cpu="A task asks for one core.",
        memory="A task asks for 2Gi.",
        user="Each query belongs to one of four users.",
        submission="All jobs arrive at time 0, or at random with `arrivals=poisson`.",
    )

    class Params(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
        """Settings of the jobs made of the profiles, as in the `tpch` workload."""

        jobs: Annotated[
            AtLeastOne | None, msgspec.Meta(description="number of jobs drawn; null: every query and size once")
        ] = None
        seed: Annotated[int, msgspec.Meta(description="seed of the draws")] = 1
        arrivals: Annotated[
            Literal["poisson", "batch"], msgspec.Meta(description="arrivals: poisson at random, batch all at time 0")
        ] = "batch"
        interarrival_s: Annotated[float, msgspec.Meta(gt=0, description="mean time between jobs, s, for poisson")] = (
            25.0
        )
        durations: Annotated[
            Literal["waves", "per_task"],
            msgspec.Meta(description="model of run times: waves for executors, per_task for plain containers"),
        ] = "waves"
        level: Annotated[
            int,
            msgspec.Meta(ge=1, description="number of executors of the measurements that per_task and `history` use"),
        ] = 50
        history: Annotated[int, msgspec.Meta(ge=0, description="number of earlier runs, over all queries")] = 0

    @staticmethod
    def recognises(path: Path, head: bytes) -> bool:
        """A folder of adjacency matrices, or JSON of queries."""
        return any(path.glob("*/adj_mat_*.npy")) if path.is_dir() else b'"queries"' in head and b'"edges"' in head

    @staticmethod
    def read(path: Path, options: Params) -> Trace:
        """The jobs, with the full profiles of their `Waves`."""
        profiles = read_profiles(path)
        chosen = msgspec.structs.asdict(options)
        seed = chosen.pop("seed")
        queries = tuple(sorted({job.query for job in profiles.jobs}))
        sizes = tuple(sorted({job.size_gb for job in profiles.jobs}))
        workload = generate(TpchSettings(queries=queries, sizes=sizes, **chosen), seed=seed, profiles=profiles)
        stages = [stage for job in profiles.jobs for stage in job.stages]
        note = f"{len(profiles):,} profiles, {len(stages):,} stages, {sum(s.tasks for s in stages):,} tasks"
        keep = profiles if options.durations == "waves" else None
        return Trace(workload=workload, profiles=keep, notes=(note,))
