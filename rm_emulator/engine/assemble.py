"""From a cluster as data to the class for its timing, and combinations of cluster and workload without meaning."""

from __future__ import annotations

from typing import Final

from rm_emulator.engine.config import Decentralised, EngineConfig, Faults, kind
from rm_emulator.engine.features.overbooking import is_overbooked
from rm_emulator.engine.profile import Profile, architectures, profiles
from rm_emulator.workload.model import Drawn, Fixed, PerNode, PerTask, Workload, WorkloadJob

#: Why no data moves between executors that outlive tasks.
NO_LINKS: Final = "links do not go with executors that outlive tasks: what waits for data holds a container of its own"
#: Why services need room of their own.
NO_SERVICES: Final = "services go neither with executors that outlive tasks nor with nodes that are overbooked"

#: Why no architecture has edges besides barriers.
NO_TIES: Final = "edges of kind one_to_one or share do not go with an architecture: a stage waits there as a whole"
#: Why no task of an executor waits for a share.
NO_SHARES: Final = "edges of kind share do not go with executors that outlive tasks: an early task holds a container"


def timing(config: EngineConfig) -> type[Profile]:
    """The class for the timing: of the architecture, else of the profile.

    Raises UnknownName, and InvalidParameters for settings that the profile does not have.
    """
    if config.architecture is not None:
        return architectures.entry(kind(config.architecture)).cls
    return profiles.parse({**config.settings, "kind": config.profile})[0]


def settled(config: EngineConfig, workload: Workload) -> EngineConfig:
    """Complete the cluster by facts of the workload.

    Raises as `timing`, and ValueError for a combination without meaning.
    """
    # By class, without an engine: the check of a scenario asks before anything is built.
    there = profiles.entry(config.profile).cls
    if config.executors is not None and not there.has_executors:
        raise ValueError(no_executors(config.profile))
    if config.links is not None and config.executors is not None:
        raise ValueError(NO_LINKS)
    services = any(source.job.kind == "service" for source in workload.jobs)
    if services and (config.executors is not None or is_overbooked(config, workload)):
        raise ValueError(NO_SERVICES)
    if (clash := tie_clash(config.executors, config.architecture, workload)) is not None:
        raise ValueError(clash[1])
    if config.faults is not None and (reason := no_faults(config, workload)):
        raise ValueError(reason)
    # Refused here rather than at the first task, perhaps hours into a run.
    names = {node.id for node in config.nodes}
    for job in workload.jobs:
        if job.running and (why := _no_present(config, job, names)):
            raise ValueError(f"job '{job.job.id}' has running tasks, {why}")
        for stage, times in zip(job.job.stages, job.runtimes, strict=True):
            if isinstance(times, PerNode) and (missing := names.difference(times.nodes)):
                raise ValueError(
                    f"job '{job.job.id}' stage '{stage.name}' has run times by node, but none for '{min(missing)}'"
                )
    if not there.has_masters and any(job.am for job in workload.jobs):
        known = _with_trait("has_masters")
        raise ValueError(f"application masters have containers in profiles {known}, not '{config.profile}'")
    return timing(config).settled(config, workload)


def tie_clash(executors: object, architecture: object, workload: Workload) -> tuple[str, str] | None:
    """The part of a cluster that does not go with edges of the workload, with a sentence; None: all do.

    executors, architecture: of the cluster, None where the cluster has none.
    """
    kinds = {edge.kind for source in workload.jobs for stage in source.job.stages for edge in stage.ties}
    if kinds and architecture is not None:
        return "architecture", NO_TIES
    return ("executors", NO_SHARES) if "share" in kinds and executors is not None else None


def no_faults(config: EngineConfig, workload: Workload) -> str:
    """Why the emulator refuses faults on this cluster, as a message; '' for faults that the cluster can have."""
    faults = config.faults
    assert faults is not None
    if isinstance(config.architecture, Decentralised) and faults.tasks and faults.tasks.backoff_ms:
        return "no task backs off with architecture 'decentralised', where workers start what waits with them"
    if reason := _no_faults_beside(config, faults, workload):
        return reason
    if profiles.entry(config.profile).cls.has_leaders and not all(each.recovery for each in faults.restarts):
        return f"restarts without recovery do not go with profile '{config.profile}', whose leaders know all objects"
    known = {node.id for node in config.nodes}
    if unknown := next((each.node for each in faults.outages if each.node not in known), None):
        return f"a fault of node '{unknown}', which is not there"
    overbooked = is_overbooked(config, workload)
    return _no_faults_of_tasks(config, faults, overbooked=overbooked) or _no_speculation(config, faults, overbooked)


def _no_faults_beside(config: EngineConfig, faults: Faults, workload: Workload) -> str:
    """Why these faults do not go with the architecture, the disorder or the jobs; '' where they do."""
    masters = any(job.am for job in workload.jobs)
    if faults.masters is not None and not masters:
        return "faults of `masters` need application masters in containers of their own"
    # Heard of, or asked for, by one scheduler in the order in which things happen.
    listed = faults.tasks is not None and faults.tasks.blacklist
    alone = {
        "masters in containers": masters,
        "restarts": faults.restarts,
        "speculation": faults.speculation,
        "a blacklist": listed,
        # Two of 300 random scenarios with both stalled; architectures have no disorder.
        "checkpoints": config.disorder is not None and faults.checkpoints,
    }
    what = next((name for name, there in alone.items() if there), "")
    other = "disorder" if config.disorder is not None else ""
    if config.architecture is not None:
        other = f"architecture '{kind(config.architecture)}'"
    return f"faults with {what} do not go with {other}" if what and other else ""


def _no_faults_of_tasks(config: EngineConfig, faults: Faults, *, overbooked: bool) -> str:
    """Why tasks cannot fail or save their work on this cluster; '' where they can."""
    if overbooked and (faults.tasks or faults.checkpoints):
        what = "faults of tasks" if faults.tasks else "checkpoints"
        return f"{what} do not go with nodes that are overbooked, where run times depend on other tasks"
    if faults.tasks and faults.tasks.blacklist and config.executors is not None:
        return "blacklists do not go with executors that outlive tasks: a list would send all of a job's executors away"
    if faults.checkpoints and config.executors is not None:
        return "checkpoints do not go with executors that outlive tasks: a further attempt goes on in a new container"
    return ""


def _no_speculation(config: EngineConfig, faults: Faults, overbooked: bool) -> str:
    """Why no master can ask for copies on this cluster; '' where masters can."""
    others = {
        "executors that outlive tasks": config.executors,
        "nodes that are overbooked": overbooked,
        "checkpoints, which a copy does not read": faults.checkpoints,
    }
    there = next((name for name, block in others.items() if block), "")
    return f"speculation does not go with {there}" if there and faults.speculation else ""


def _no_present(config: EngineConfig, job: WorkloadJob, nodes: set[str]) -> str:
    """Why a job's running tasks cannot be taken in, as the end of a sentence; '' where they can."""
    if config.executors is not None or config.architecture is not None or job.am or job.submit_ms:
        return "which go with a single scheduler, without executors or application masters, and with an arrival at 0"
    if missing := next((each.node for each in job.running if each.node not in nodes), None):
        return f"one of them on node '{missing}', which is not there"
    if any(not isinstance(job.runtimes[each.stage], Fixed | PerTask | Drawn) for each in job.running):
        return "whose run times must be the same on all nodes"
    return ""


def no_executors(profile: str) -> str:
    """The message for executors with a profile without executors."""
    return f"executors need the profile {_with_trait('has_executors')}, this cluster has '{profile}'"


def _with_trait(trait: str) -> str:
    """The names of the profiles with a trait, for a message."""
    return " and ".join(f"'{entry.name}'" for entry in profiles if getattr(entry.cls, trait))
