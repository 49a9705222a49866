"""From the scenario's workload block and a seed to a workload in the cluster's resources."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from rm_emulator.engine.sizes import in_sizes
from rm_emulator.scenario import inline
from rm_emulator.scenario.cluster import container_sizes, engine_config, nodes, resources_of, slots
from rm_emulator.scenario.schema import Scenario
from rm_emulator.scenario.schema.workload import (
    DagsWorkload,
    JobsWorkload,
    LachesisWorkload,
    MixedWorkload,
    ProductionWorkload,
    SyntheticWorkload,
    TpchWorkload,
    TraceWorkload,
)
from rm_emulator.workload import asks, data, deadlines
from rm_emulator.workload.model import Fixed, Workload
from schedulers.core.errors import InvalidParameters
from schedulers.core.resources import Resources, Vector

if TYPE_CHECKING:
    from rm_emulator.workload.describe import Description
    from rm_emulator.workload.profiles import TpchProfiles
    from rm_emulator.workload.sizes import Wanted
    from rm_emulator.workload.work import Sampler


#: A preset makes about 26 tasks per job and 150 slots.
MAX_SLOTS: Final = 100_000

#: From this part of what tasks hold on, launching them is warned of.
LAUNCHES: Final = 0.2


class Built(msgspec.Struct, frozen=True):
    """A workload, the measured profiles of its `Waves`, and a reader's notes on omissions and assumptions."""

    workload: Workload
    profiles: TpchProfiles | None = None
    notes: tuple[str, ...] = ()


def build(scenario: Scenario, folder: Path, seed: int) -> Built:
    """The workload of a seed. folder: the base of relative paths.

    Raises TraceError for an unreadable trace, InvalidParameters, UnknownName and InvalidQuantity for settings.
    """
    block = scenario.spec.workload
    if isinstance(block, JobsWorkload):
        wanted = (name for job in block.jobs for stage in job.stages for name in stage.demand)
        built = Built(inline.workload(block, scenario.metadata.name, resources_of(scenario, wanted)))
    elif isinstance(block, SyntheticWorkload):
        built = _synthetic(scenario, block, seed)
    elif isinstance(block, TpchWorkload):
        built = _tpch(scenario, block, folder, seed)
    elif isinstance(block, DagsWorkload):
        built = _dags(scenario, block, seed)
    elif isinstance(block, LachesisWorkload):
        built = _lachesis(scenario, block, seed)
    elif isinstance(block, MixedWorkload):
        built = _mixed(block, seed)
    elif isinstance(block, ProductionWorkload):
        built = _production(scenario, block, seed)
    else:
        built = _trace(scenario, block, folder, seed)
    resources = resources_of(scenario, built.workload.resources)
    workload = _with_masters(scenario, in_resources(built.workload, resources), resources)
    machines = nodes(scenario.spec.cluster.nodes, resources)
    if block.data is not None:
        workload = data.given(workload, machines, block.data, seed)
    if block.asks is not None:
        workload = asks.misjudge(workload, machines, block.asks, seed)
    if block.deadlines is not None:
        capacity = tuple(map(sum, zip(*(node.capacity for node in machines), strict=True)))
        workload = deadlines.with_deadlines(workload, capacity, block.deadlines, seed)
    if scenario.spec.cluster.sizes is not None:
        workload = in_sizes(workload, container_sizes(scenario.spec.cluster.sizes, resources))
    return msgspec.structs.replace(built, workload=workload)


def in_resources(workload: Workload, resources: Resources) -> Workload:
    """The same workload with its demands in a new order of resources, all of the workload's own included."""
    if workload.resources == resources.names:
        return workload
    where = [workload.resources.index(n) if n in workload.resources else None for n in resources.names]

    def moved(demand: Vector) -> Vector:
        return tuple(0 if i is None else demand[i] for i in where) if demand else ()

    replace = msgspec.structs.replace
    jobs = tuple(
        replace(
            entry,
            job=replace(entry.job, stages=tuple(replace(s, demand=moved(s.demand)) for s in entry.job.stages)),
            am=moved(entry.am),
            usage=tuple(map(moved, entry.usage)),
        )
        for entry in workload.jobs
    )
    history = tuple(replace(past, demand=moved(past.demand)) for past in workload.history)
    return replace(workload, jobs=jobs, history=history, resources=resources.names)


def _with_masters(scenario: Scenario, workload: Workload, resources: Resources) -> Workload:
    """The workload with the scenario's application master for each job without a master of its own."""
    container = scenario.spec.cluster.application_master.container
    if container is None:
        return workload
    am, replace = resources.demand(container), msgspec.structs.replace
    return replace(workload, jobs=tuple(replace(job, am=job.am or am) for job in workload.jobs))


def _synthetic(scenario: Scenario, block: SyntheticWorkload, seed: int) -> Built:
    from rm_emulator.workload import chains, synthetic

    if slots_of(scenario) > MAX_SLOTS:
        raise InvalidParameters(
            f"a preset's widths grow with the slots, and {slots_of(scenario):,} are too many "
            f"(at most {MAX_SLOTS:,}; `slots` in the workload sets them apart from the cluster's cores)"
        )
    knobs = synthetic.spec(block.preset, block.knobs)
    generate = synthetic.generate if block.stages is None else partial(chains.generate, stages=block.stages)
    made = generate(
        knobs,
        jobs=block.jobs,
        load=block.load,
        slots=slots_of(scenario),
        seed=seed,
        history=block.history,
    )
    wanted = knobs.window_load if block.load is None else block.load
    return _at_load(scenario, Built(msgspec.structs.replace(made, name=block.preset)), wanted)


def _at_load(scenario: Scenario, built: Built, load: float) -> Built:
    """The workload, made for a load on the cluster's cores, at the same load on the scarcest resource."""
    from rm_emulator.workload import extraction

    slots, _ = measured_slots(scenario, built)
    if slots == slots_of(scenario) or not built.workload.jobs:
        return built
    jobs = extraction.at_load(built.workload.jobs, load, slots, sampler(built))
    return msgspec.structs.replace(built, workload=msgspec.structs.replace(built.workload, jobs=jobs))


def _tpch(scenario: Scenario, block: TpchWorkload, folder: Path, seed: int) -> Built:
    from rm_emulator.workload import profile_files, tpch

    settings = _at_interval(block)
    if block.profiles is not None:
        settings["profiles"] = str(folder / block.profiles)
    demand = settings.get("demand", tpch.TpchSettings().demand)
    settings["slots"] = block.slots or slots(scenario, demand) or None
    parsed = msgspec.convert(settings, tpch.TpchSettings)
    measured = profile_files.load_profiles(parsed.profiles)
    return Built(tpch.generate(parsed, seed=seed, profiles=measured), measured)


def _dags(scenario: Scenario, block: DagsWorkload, seed: int) -> Built:
    from rm_emulator.workload import dags

    settings = msgspec.convert(_at_interval(block), dags.DagsSettings)
    machines = nodes(scenario.spec.cluster.nodes, resources_of(scenario))
    return Built(dags.generate(settings, machines, seed=seed, rate=_rate(scenario)))


def _lachesis(scenario: Scenario, block: LachesisWorkload, seed: int) -> Built:
    from rm_emulator.workload import lachesis

    settings = msgspec.convert(_at_interval(block), lachesis.LachesisSettings)
    speeds = [group.speed for group in scenario.spec.cluster.nodes for _ in range(group.count)]
    return Built(lachesis.generate(settings, seed=seed, speeds=speeds, rate=_rate(scenario)))


def _mixed(block: MixedWorkload, seed: int) -> Built:
    from rm_emulator.workload import mixed

    return Built(mixed.generate(msgspec.convert(block.settings, mixed.MixedSettings), seed=seed))


def _production(scenario: Scenario, block: ProductionWorkload, seed: int) -> Built:
    from rm_emulator.workload import production

    settings = msgspec.convert(block.settings, production.ProductionSettings)
    resources = resources_of(scenario, settings.drawn)
    machines = nodes(scenario.spec.cluster.nodes, resources)
    return Built(production.generate(settings, resources, machines, seed=seed))


def _rate(scenario: Scenario) -> int:
    """Bytes a second between two nodes, the base of `ccr`; without links transfers take no time."""
    from rm_emulator.workload.dags import RATE

    links = scenario.spec.cluster.links
    return RATE if links is None or links.rate is None else links.rate


def _at_interval(block: TpchWorkload | DagsWorkload | LachesisWorkload) -> dict[str, Any]:
    """The settings of the block, its interval among them under the struct's name."""
    interval = {} if block.interarrival is None else {"interarrival_s": block.interarrival / 1000}
    return {**block.settings, **interval}


def _trace(scenario: Scenario, block: TraceWorkload, folder: Path, seed: int) -> Built:
    from rm_emulator.workload import extraction

    built = _read_trace(block, folder / block.path)
    cores = slots_of(scenario)
    if block.extract is not None:
        workload = extraction.extract(
            built.workload,
            jobs=block.extract.jobs,
            slots=cores,
            trace_slots=block.extract.trace_slots,
            drop_wider_than=block.extract.drop_wider_than,
            load=block.load,
            seed=seed,
            sampler=sampler(built),
        )
        built = msgspec.structs.replace(built, workload=workload)
        return built if block.load is None else _at_load(scenario, built, block.load)
    if block.load is None:
        return built
    entries = built.workload.jobs
    if entries and entries[0].submit_ms == entries[-1].submit_ms:
        raise InvalidParameters(f"load {block.load} cannot be reached: all jobs arrive at the same time")
    jobs = extraction.at_load(entries, block.load, measured_slots(scenario, built)[0], sampler(built))
    # Scaled gaps leave no arrival at its date.
    return msgspec.structs.replace(built, workload=msgspec.structs.replace(built.workload, jobs=jobs, began=None))


def offered(scenario: Scenario, built: Built) -> tuple[float | None, str | None]:
    """The load of the workload on the cluster, true work over slots times arrival span, and the scarcest resource.

    The load is the largest over the resources; a workload with `slots` of its own has its load over these slots, and no
    scarcest resource.
    """
    from rm_emulator.workload.work import offered_load

    slots, resource = measured_slots(scenario, built)
    jobs = built.workload.jobs
    # The jobs of a snapshot, a millisecond apart, are all there: nothing arrives that a load could be of.
    if jobs and jobs[-1].submit_ms < len(jobs):
        return None, resource
    return offered_load(built.workload, slots, sampler(built)), resource


def launch_warnings(scenario: Scenario, built: Built) -> list[str]:
    """A warning where launching takes a large part of what tasks hold."""
    load, part = offered(scenario, built)[0], launches(scenario, built)
    if load is None or part is None or part <= LAUNCHES:
        return []
    return [
        f"warning: launching tasks takes about {part:.0%} of what they hold: "
        f"the load is {load:.2f}, the held load about {load / (1 - part):.2f}"
    ]


def launches(scenario: Scenario, built: Built) -> float | None:
    """Likely part of the held resources that goes into launching tasks; None for unknown run times.

    By the profile's usual delays and the mean start-up time, of the scarcest resource (`offered`), at node speed 1.
    """
    from rm_emulator.engine.profile import profiles
    from rm_emulator.workload.work import mean_task

    config = engine_config(scenario, resources_of(scenario, built.workload.resources))
    usual = profiles.entry(config.profile).cls.usual_launch_ms(config)
    each = usual + (config.startup.ms if isinstance(config.startup, Fixed) else config.startup.mean_ms)
    run = mean_task(built.workload, measured_slots(scenario, built)[1], sampler(built))
    return None if run is None else each / (each + run)


def measured_slots(scenario: Scenario, built: Built) -> tuple[float, str | None]:
    """Slots that the load is measured against: the workload's own `slots`, else the average tasks the cluster can hold.

    And the scarcest resource, None with slots of the workload's own or unknown run times.
    """
    from rm_emulator.workload.work import slots_for

    block, cores = scenario.spec.workload, slots_of(scenario)
    if getattr(block, "slots", None) is not None:
        return cores, None
    resources = resources_of(scenario, built.workload.resources)
    capacity = dict.fromkeys(resources.names, 0.0)
    for group in scenario.spec.cluster.nodes:
        for name, amount in zip(resources.names, resources.capacity(group.capacity), strict=True):
            capacity[name] += group.count * group.speed * amount
    slots, resource = slots_for(built.workload, capacity, sampler(built)) or (cores, None)
    return cores if math.isclose(slots, cores, rel_tol=1e-9) else slots, resource


def sampler(built: Built) -> Sampler | None:
    """Run times of the measured waves of a workload, for figures about its work as a whole."""
    from rm_emulator.workload.profiles import from_profiles

    return None if built.profiles is None else from_profiles(built.profiles)


def description(scenario: Scenario, built: Built) -> Description:
    """Figures of the workload on the cluster (`rm-emulator traces describe`), and sizes of a cluster of its nodes."""
    from rm_emulator.workload.describe import describe
    from rm_emulator.workload.sizes import Wanted

    slots = max(1, round(measured_slots(scenario, built)[0]))
    wanted = on_own_nodes(scenario, built, Wanted())
    try:
        return describe(built.workload, slots, sampler=sampler(built), notes=built.notes, wanted=wanted)
    except InvalidParameters:  # a task larger than a node
        return describe(built.workload, slots, sampler=sampler(built), notes=built.notes)


def slots_of(scenario: Scenario) -> int:
    """Slots that the load of the scenario's workload is measured against: its own `slots`, else the cluster's cores."""
    given: int | None = getattr(scenario.spec.workload, "slots", None)
    return given or slots(scenario, {"cpu": 1})


def on_own_nodes(scenario: Scenario, built: Built, wanted: Wanted) -> Wanted:
    """The cluster to be sized, with the scenario's nodes unless another node is given, or they differ from each other.

    A node has the resources for which tasks may ask. Nodes of another speed than 1 leave a cluster as it is: waits are
    estimated at speed 1.
    """
    groups, resources = scenario.spec.cluster.nodes, resources_of(scenario, built.workload.resources)
    alike = {(group.speed, resources.capacity(group.capacity)) for group in groups}
    if wanted.node is not None or len(alike) > 1 or groups[0].speed != 1:
        return wanted
    node = {name: str(amount) for name, amount in groups[0].capacity.items() if name in built.workload.resources}
    return msgspec.structs.replace(wanted, node=node, own=sum(group.count for group in groups))


def _read_trace(block: TraceWorkload, path: Path) -> Built:
    from rm_emulator.workload import formats

    trace = formats.stored(path) if block.format == "internal" else formats.read(block.format, path, block.options)
    return Built(trace.workload, trace.profiles, trace.notes)
