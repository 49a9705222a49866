"""The second look at a scenario: references between its blocks, and whether its workload can be read and run at all."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rm_emulator.engine.assemble import NO_LINKS, no_executors
from rm_emulator.engine.config import Decentralised, MultipleThinkers
from rm_emulator.engine.profile import profiles
from rm_emulator.issues import InvalidInput, Issue, TraceError, did_you_mean
from rm_emulator.results import contest, expect
from rm_emulator.scenario import architectures, decentralised, fault_checks, inline
from rm_emulator.scenario.cluster import core_queue, nodes, resources_of, who_decides
from rm_emulator.scenario.load import Loaded, gathered
from rm_emulator.scenario.schema.cluster import InlineQueue
from rm_emulator.scenario.schema.policy import PolicyEntry
from rm_emulator.scenario.schema.values import TimesByNode
from rm_emulator.scenario.schema.workload import JobsWorkload, TpchWorkload, TraceWorkload
from rm_emulator.scenario.sweep import Point
from rm_emulator.scenario.workload import Built, build
from rm_emulator.workload.asks import Asks
from rm_emulator.workload.data import Data
from rm_emulator.workload.model import PerNode, Workload
from schedulers.core.abilities import Copies, PlaysExecutors, ability
from schedulers.core.abilities import mistakes as queue_mistakes
from schedulers.core.compatible import Setup, clashes, policy_of
from schedulers.core.errors import InvalidQuantity, SchedulerError, nearest
from schedulers.core.model import Node
from schedulers.core.placer import placers
from schedulers.core.places import ANYWHERE, Places
from schedulers.core.policy import Policy, policies
from schedulers.core.queues import QueueTree, amount, mistakes
from schedulers.core.registry import Registry
from schedulers.core.resources import Resources, Vector, show_steps, to_steps
from schedulers.core.vectors import fits

#: So many mistakes of one kind inside a workload are shown; a wrong column would repeat one thousands of times.
SHOWN: Final = 5
#: Of a resource in one group of nodes, in steps of the core; sums stay whole in 64 bits.
_MOST: Final = 10**15


def check(loaded: Loaded) -> Built:
    """Check references and workloads at every point of a sweep. Returns the first seed's workload at the first point.

    Raises InvalidInput.
    """
    if issues := gathered([(each.point, block_issues(each)) for each in loaded.points]):
        raise InvalidInput(issues)
    first, last = None, None
    found: list[tuple[Point, list[Issue]]] = []
    for each in loaded.points:
        spec = each.scenario.spec
        try:
            # A workload takes seconds to build, and many points differ in their policies only.
            if last is None or last[0] != (spec.cluster, spec.workload):
                last = (spec.cluster, spec.workload), build_first(each)
        except InvalidInput as error:
            if len(loaded.points) == 1:
                raise
            found.append((each.point, error.issues))
        else:
            first = first or last[1]
            workload = last[1].workload
            more = architectures.workload_issues(each, workload)
            found.append((each.point, [*_workload_issues(each, workload), *more]))
    if issues := gathered(found):
        raise InvalidInput(issues)
    assert first is not None
    return first


def block_issues(loaded: Loaded) -> Iterator[Issue]:
    """Mistakes that the blocks of a scenario show without a workload."""
    yield from _policy_issues(loaded)
    yield from _clashes(loaded)
    yield from _copies_issues(loaded)
    yield from _expect_issues(loaded)
    yield from _headline_issues(loaded)
    yield from _baselines_issues(loaded)
    yield from _queue_issues(loaded)
    yield from _cluster_issues(loaded)
    yield from architectures.block_issues(loaded)
    yield from decentralised.block_issues(loaded)
    yield from fault_checks.block_issues(loaded)
    yield from _workload_block_issues(loaded)


def build_first(loaded: Loaded) -> Built:
    """The workload of the first seed. Raises InvalidInput where its settings or its trace are unusable."""
    try:
        return build(loaded.scenario, loaded.folder, loaded.scenario.spec.seeds[0])
    except TraceError as error:
        raise InvalidInput(error.issues, error.count, remedy=error.remedy) from None
    except (SchedulerError, ValueError) as error:
        issues = [loaded.issue(("spec", "workload"), str(error))]
    except ArithmeticError as error:
        issues = [loaded.issue(("spec", "workload"), f"its numbers are too large to calculate with ({error})")]
    except MemoryError:
        issues = [loaded.issue(("spec", "workload"), "does not fit into this machine's memory: ask for fewer tasks")]
    raise InvalidInput(issues)


def _policy_issues(loaded: Loaded) -> Iterator[Issue]:
    spec = loaded.scenario.spec
    labels: list[str] = []
    for index, policy in enumerate(spec.policies):
        if policy.label in labels:
            first = labels.index(policy.label)
            message = f"label '{policy.label}' is taken by policies[{first}]: give one of them another"
            yield loaded.issue(("spec", "policies", index, "label"), message)
        labels.append(policy.label)
    if spec.baseline is not None and spec.baseline not in labels:
        message = f"no policy has the label '{spec.baseline}' (labels: {', '.join(labels)})"
        yield loaded.issue(("spec", "baseline"), message, did_you_mean(nearest(spec.baseline, labels)))


def _clashes(loaded: Loaded) -> Iterator[Issue]:
    """Policies ruled out by the cluster or its architecture, by the table of schedulers/core/compatible.py."""
    cluster, who = loaded.scenario.spec.cluster, loaded.scenario.spec.cluster.architecture
    entries: list[tuple[tuple[str | int, ...], PolicyEntry]] = [
        (("spec", "policies", index), policy) for index, policy in enumerate(loaded.scenario.spec.policies)
    ]
    for index, each in enumerate(who.schedulers if isinstance(who, MultipleThinkers) else ()):
        if each.policy is not None:
            place = ("spec", "cluster", "architecture", "schedulers", index, "policy")
            entries.append((place, PolicyEntry.model_validate(each.policy)))
    for at, policy in entries:
        if (one := policy_of(policy.settings)) is None:
            continue
        if (plays := ability(one, PlaysExecutors)) is not None:
            yield from (loaded.issue((*at, "kind"), why) for why in _unplayable(policy.kind, plays, loaded))
        setup = Setup(
            policy=one,
            kind=policy.kind,
            placement=(policy.placement or {"kind": "first_fit"})["kind"],
            executors=cluster.executors is not None,
            reserve_after=cluster.reserve_after is not None,
            thinks=who_decides(who) is not None and not isinstance(who, Decentralised),
        )
        for key, why in clashes(setup).items():
            if key == "executors":
                message = f"policy '{policy.kind}' does not serve executors: take `executors` out of the cluster"
                yield loaded.issue((*at, "kind"), message)
            elif key == "placement":
                yield loaded.issue((*at, "placement"), why)
            elif key == "thinks":
                yield loaded.issue((*at, "kind"), f"policy '{policy.kind}': {why}")
            elif key == "reserve_after":
                message = f"policy '{policy.kind}': {why}; take `reserve_after` out of the cluster"
                yield loaded.issue(("spec", "cluster", "reserve_after"), message)


def _unplayable(kind: str, plays: PlaysExecutors, loaded: Loaded) -> Iterator[str]:
    """Why a policy that plays executors is of no use here."""
    if loaded.scenario.spec.cluster.executors is None:
        yield (
            f"policy '{kind}' plays executors that outlive their tasks, and here containers end with their tasks: give "
            "the cluster `executors`, or take policy 'curves'"
        )
    if missing := plays.missing():
        yield f"policy '{kind}': {missing}"


def _copies_issues(loaded: Loaded) -> Iterator[Issue]:
    """Copies of tasks where no policy makes copies, or none can."""
    spec, at = loaded.scenario.spec, ("spec", "copies")
    if spec.copies is None:
        return
    if spec.cluster.executors is not None:
        yield loaded.issue(at, "copies do not go with executors that outlive tasks (take one of the two out)")
    makers = [_copies(policies, policy.settings) or _copies(placers, policy.placement) for policy in spec.policies]
    if not any(makers):
        known = [f"'{name}'" for registry in (policies, placers) for name in _copying(registry)]
        who = f"those that do: {', '.join(known)}" if known else "none of the registered ones does"
        yield loaded.issue(at, f"no policy or placement of this scenario copies tasks ({who}): take `copies` out")


def _copies(registry: Registry[Any], settings: Mapping[str, Any] | None) -> bool:
    """Whether the policy or placer of these settings copies tasks."""
    if settings is None:
        return False
    cls, params = registry.parse(settings)
    one = cls(params)
    return ability(one, Copies) is not None if isinstance(one, Policy) else bool(one.copies)


def _copying(registry: Registry[Any]) -> Iterator[str]:
    """Names of the registered classes that copy tasks in some setting at least."""
    return (entry.name for entry in registry if getattr(entry.cls, "copies", False) or issubclass(entry.cls, Copies))


def _expect_issues(loaded: Loaded) -> Iterator[Issue]:
    spec = loaded.scenario.spec
    labels = [policy.label for policy in spec.policies]
    baseline = spec.baseline if spec.baseline in labels else None
    for index, text in enumerate(spec.expect):
        try:
            expect.check(expect.parse(text), labels, baseline)
        except ValueError as error:
            yield loaded.issue(("spec", "expect", index), str(error))


def _headline_issues(loaded: Loaded) -> Iterator[Issue]:
    figure = loaded.scenario.spec.headline
    if figure is not None:
        try:
            contest.check(figure)
        except ValueError as error:
            yield loaded.issue(("spec", "headline"), str(error))


def _baselines_issues(loaded: Loaded) -> Iterator[Issue]:
    names = loaded.scenario.spec.baselines
    for index, name in enumerate(names):
        if names.index(name) < index:
            yield loaded.issue(("spec", "baselines", index), f"baseline '{name}' is named twice")


def _queue_issues(loaded: Loaded) -> Iterator[Issue]:
    queues = loaded.scenario.spec.queues
    names = [queue.name for queue in queues]
    for index, queue in enumerate(queues):
        at = ("spec", "queues", index)
        if names.index(queue.name) < index:
            yield loaded.issue((*at, "name"), f"queue '{queue.name}' is declared twice")
        elif queue.parent and queue.parent not in names:
            message = f"no queue '{queue.parent}' (queues: {', '.join(names)})"
            yield loaded.issue((*at, "parent"), message, did_you_mean(nearest(queue.parent, names)))
        elif _is_own_ancestor(queue, queues):
            yield loaded.issue((*at, "parent"), f"queue '{queue.name}' is its own ancestor")
        else:
            yield from _limit_issues(loaded, queue, at)
    if len(set(names)) == len(names):
        yield from _sharing_issues(loaded)


def _limit_issues(loaded: Loaded, queue: InlineQueue, at: tuple[str | int, ...]) -> Iterator[Issue]:
    """Limits on resources missing in the cluster."""
    resources = resources_of(loaded.scenario)
    each = queue.per_user.limit if queue.per_user is not None else None
    for path, limit in ((("guaranteed",), queue.guaranteed), (("max",), queue.max), (("per_user", "limit"), each)):
        for name in limit if isinstance(limit, dict) else ():
            if name not in resources.names:
                message = f"unknown resource '{name}' (this cluster has {', '.join(resources.names)})"
                yield loaded.issue((*at, *path, name), message, did_you_mean(nearest(name, resources.names)), key=True)


def _sharing_issues(loaded: Loaded) -> Iterator[Issue]:
    """Weights, guarantees and maxima that contradict each other on the scenario's cluster."""
    resources, queues = resources_of(loaded.scenario), loaded.scenario.spec.queues
    index = {queue.name: number for number, queue in enumerate(queues)}
    try:
        core = [core_queue(queue, resources) for queue in queues]
    except InvalidQuantity:
        return  # said where it is written
    for mistake in mistakes(core, resources, _capacity(loaded, resources)):
        at = ("spec", "queues", index[mistake.queue], mistake.field)
        yield loaded.issue(at, mistake.message)


def _capacity(loaded: Loaded, resources: Resources) -> list[int]:
    groups = [(group.count, resources.capacity(group.capacity)) for group in loaded.scenario.spec.cluster.nodes]
    return [sum(count * capacity[r] for count, capacity in groups) for r in range(len(resources))]


def _is_own_ancestor(queue: InlineQueue, queues: Sequence[InlineQueue]) -> bool:
    parents = {other.name: other.parent for other in queues}
    at, steps = queue.parent, 0
    while at and steps <= len(queues):
        if at == queue.name:
            return True
        at, steps = parents.get(at, ""), steps + 1
    return False


def _cluster_issues(loaded: Loaded) -> Iterator[Issue]:
    scenario = loaded.scenario
    resources = resources_of(scenario)
    seen: dict[str, None] = {}
    for node in nodes(scenario.spec.cluster.nodes, resources):
        if node.id in seen:
            message = f"two nodes would be called '{node.id}': give the groups different names"
            yield loaded.issue(("spec", "cluster", "nodes"), message)
            break
        seen[node.id] = None
    cluster = scenario.spec.cluster
    for index, group in enumerate(cluster.nodes):
        at, capacity = ("spec", "cluster", "nodes", index), resources.capacity(group.capacity)
        if not any(capacity):
            yield loaded.issue((*at, "capacity"), "a node without any resource")
        if group.racks is not None and group.racks > group.count:
            message = f"{group.racks} racks for {group.count} nodes (expected at most one rack a node)"
            yield loaded.issue((*at, "racks"), message)
        if any(group.count * amount > _MOST for amount in capacity):
            message = f"more than can be counted (at most {show_steps('memory', _MOST)} of memory in a group)"
            yield loaded.issue((*at, "capacity"), message)
    if cluster.executors is not None and not profiles.entry(cluster.profile_name).cls.has_executors:
        yield loaded.issue(("spec", "cluster", "executors"), no_executors(cluster.profile_name))
    if cluster.kubernetes is not None and not isinstance(cluster.profile, str):
        message = "settings of the profile stand in `profile` already; take one of the two out"
        yield loaded.issue(("spec", "cluster", "kubernetes"), message)
    yield from _links_issues(loaded, seen)
    for name in cluster.overbook:
        if not any(name in group.capacity for group in cluster.nodes):
            yield loaded.issue(("spec", "cluster", "overbook", name), f"no node has '{name}', so nothing is overbooked")


def _links_issues(loaded: Loaded, known: Collection[str]) -> Iterator[Issue]:
    """Links of unknown nodes, and links where no data can be waited for."""
    cluster, at = loaded.scenario.spec.cluster, ("spec", "cluster", "links")
    if cluster.links is None:
        return
    if cluster.executors is not None:
        yield loaded.issue(at, f"{NO_LINKS} (take one of the two out of the cluster)")
    for one, others in cluster.links.pairs.items():
        for path in ((one,), *((one, other) for other in others)):
            if path[-1] not in known:
                hint = did_you_mean(nearest(path[-1], known))
                yield loaded.issue((*at, "between", *path), _no_node(path[-1], known), hint, key=True)
        if one in others:
            message = f"'{one}' needs no link to itself: what is on a node takes no time there"
            yield loaded.issue((*at, "between", one, one), message, key=True)


def _no_node(name: str, known: Collection[str]) -> str:
    shown = ", ".join(list(known)[:SHOWN])
    return f"no node '{name}' in this cluster (nodes: {shown}{', ...' if len(known) > SHOWN else ''})"


def _workload_block_issues(loaded: Loaded) -> Iterator[Issue]:
    block = loaded.scenario.spec.workload
    at = ("spec", "workload")
    if isinstance(block, JobsWorkload):
        for path, message, hint in inline.mistakes(block):
            yield loaded.issue((*at, *path), message, hint)
        yield from _inline_sizes(loaded, block)
        yield from _inline_nodes(loaded, block)
        if not loaded.of_objects:  # of a cluster nodes come and go
            yield from _inline_wishes(loaded, block)
    elif isinstance(block, TraceWorkload):
        yield from _missing_file(loaded, (*at, "path"), block.path)
        yield from _unknown_format(loaded, block)
    elif isinstance(block, TpchWorkload) and block.profiles is not None:
        yield from _missing_file(loaded, (*at, "profiles"), block.profiles)
    yield from _data_issues(loaded, block.data)
    yield from _asks_issues(loaded, block.asks)


def _data_issues(loaded: Loaded, data: Data | None) -> Iterator[Issue]:
    """More replicas than there are nodes to hold them."""
    count = sum(group.count for group in loaded.scenario.spec.cluster.nodes)
    if data is not None and data.replicas is not None and data.replicas > count:
        message = f"{data.replicas} replicas on {count} nodes (expected at most one a node)"
        yield loaded.issue(("spec", "workload", "data", "replicas"), message)


def _asks_issues(loaded: Loaded, asks: Asks | None) -> Iterator[Issue]:
    """Resources in `without` that the cluster lacks, or all of the cluster's resources."""
    without = asks.without if asks is not None else []
    names = resources_of(loaded.scenario).names
    at = ("spec", "workload", "asks", "without")
    for index, name in enumerate(without):
        if name not in names:
            message = f"unknown resource '{name}' (this cluster has {', '.join(names)})"
            yield loaded.issue((*at, index), message, did_you_mean(nearest(name, names)))
    if set(names) <= set(without):
        yield loaded.issue(at, f"{', '.join(without)} are all that there is (expected one at least to be asked for)")


def _missing_file(loaded: Loaded, at: tuple[str, ...], name: str) -> Iterator[Issue]:
    path = loaded.folder / name
    if path.exists():
        return
    folder = path.parent
    beside = sorted(str(Path(name).parent / p.name) for p in folder.iterdir()) if folder.is_dir() else []
    where = "" if Path(name).is_absolute() else f" (relative to the scenario's folder, {loaded.folder})"
    yield loaded.issue(at, f"no such file: '{name}'{where}", did_you_mean(nearest(name, beside)))


def _unknown_format(loaded: Loaded, block: TraceWorkload) -> Iterator[Issue]:
    from rm_emulator.workload import formats

    known = ["internal", *formats.names()]
    at = ("spec", "workload")
    if block.format not in known:
        message = f"unknown trace format '{block.format}' (accepted: {', '.join(known)})"
        yield loaded.issue((*at, "format"), message, did_you_mean(nearest(block.format, known)))
    elif block.format == "internal":
        if block.options:
            yield loaded.issue((*at, "options"), "a converted workload has no options")
    else:
        from rm_emulator.scenario.schema.settings import setting_errors

        entry = formats.FORMATS.entry(block.format)
        for error in setting_errors(f"trace format '{block.format}'", entry.params, block.options):
            context = getattr(error["type"], "context", None) or {}
            path = (*at, "options", *error.get("loc", ()))
            yield loaded.issue(path, context["text"], context["hint"], key=context["key"])


def _inline_nodes(loaded: Loaded, block: JobsWorkload) -> Iterator[Issue]:
    """Run times by node for unknown nodes, and nodes without a run time."""
    known: dict[str, None] | None = None
    for j, job in enumerate(block.jobs):
        for s, stage in enumerate(job.stages):
            if not isinstance(stage.duration, TimesByNode):
                continue
            if known is None:
                groups = loaded.scenario.spec.cluster.nodes
                known = dict.fromkeys(node.id for node in nodes(groups, resources_of(loaded.scenario)))
            at, times = ("spec", "workload", "jobs", j, "stages", s, "duration", "by_node"), stage.duration.by_node
            for name in times:
                if name not in known:
                    hint = did_you_mean(nearest(name, known))
                    yield loaded.issue((*at, name), _no_node(name, known), hint, key=True)
            missing = next((name for name in known if name not in times), None)
            if missing is not None:
                yield loaded.issue(
                    at, f"no run time for node '{missing}' (expected one for each of {len(known)} nodes)"
                )


def _inline_wishes(loaded: Loaded, block: JobsWorkload) -> Iterator[Issue]:
    """Wishes for unknown kinds of nodes and unknown racks."""
    there: dict[str, list[str]] = {}
    for j, job in enumerate(block.jobs):
        for w, wish in enumerate(job.wishes.prefer if job.wishes is not None else ()):
            if not there:
                machines = nodes(loaded.scenario.spec.cluster.nodes, resources_of(loaded.scenario))
                there = {
                    "device": list(dict.fromkeys(node.kind for node in machines if node.kind)),
                    "rack": list(dict.fromkeys(node.rack for node in machines if node.rack)),
                }
            at = ("spec", "workload", "jobs", j, "wishes", "prefer", w)
            for key, wanted in (("device", wish.device), ("rack", wish.rack)):
                if wanted and wanted not in there[key]:
                    what = "kind" if key == "device" else "rack"
                    known = ", ".join(there[key]) or f"no node has a {what}"
                    hint = did_you_mean(nearest(wanted, there[key]))
                    yield loaded.issue((*at, key), f"no node of {what} '{wanted}' ({known})", hint)
            if wish.same_rack and not there["rack"]:
                yield loaded.issue((*at, "same_rack"), "no node is in a rack: give groups of nodes `rack` or `racks`")


def _inline_sizes(loaded: Loaded, block: JobsWorkload) -> Iterator[Issue]:
    """Tasks larger than every node, at the place where the demand is written."""
    wanted = (name for job in block.jobs for stage in job.stages for name in stage.demand)
    resources = resources_of(loaded.scenario, wanted)
    machines = nodes(loaded.scenario.spec.cluster.nodes, resources)
    for j, job in enumerate(block.jobs):
        for s, stage in enumerate(job.stages):
            at = ("spec", "workload", "jobs", j, "stages", s, "demand")
            demand = resources.demand(stage.demand)
            places = stage.places
            if not any(demand):
                yield loaded.issue(at, "a task that asks for nothing would fit a full node without end")
            elif not any(fits(demand, node.capacity) for node in machines):
                hint = ""
                cpu = resources.names.index("cpu")
                if demand[cpu] > max(node.capacity[cpu] for node in machines) and "cpu" in stage.demand:
                    milli = f"{stage.demand['cpu']}m"
                    hint = did_you_mean(milli) if _fits_if(milli, demand, cpu, machines) else ""
                yield loaded.issue(at, _too_large(demand, machines, resources), hint)
            elif why := _never_starts(loaded, demand, places, machines, stage.tasks if stage.gang else 1):
                yield loaded.issue((*at[:-1], "tasks" if stage.gang else "places"), why)


def _never_starts(loaded: Loaded, demand: Vector, places: Places, machines: Sequence[Node], together: int) -> str:
    """Why so many equal tasks could not start at once on the empty cluster, '' when they could."""
    each = [
        min(have // wanted for have, wanted in zip(node.room, demand, strict=True) if wanted)
        for node in machines
        if places.bars(node.id, node.labels, node.taints) is None
    ]
    if not any(each):
        return "no node that its places and the nodes' taints leave to a task is large enough for it"
    cluster = loaded.scenario.spec.cluster
    beats = profiles.entry(cluster.profile_name).cls.offers == "heartbeat"
    most = max(each) if beats else sum(each)
    if beats and cluster.containers_per_heartbeat is not None:
        most = min(most, cluster.containers_per_heartbeat)
    if together <= most:
        return ""
    gang = f"the {together} tasks of a gang start together, and"
    if not beats or sum(each) < together:
        return f"{gang} the empty cluster takes at most {sum(each)} of them"
    others = " or ".join(entry.name for entry in profiles if entry.cls.offers != "heartbeat")
    return (
        f"{gang} profile '{cluster.profile_name}' offers one node at a time, which takes at most {most} of them "
        f"(take a profile that offers all nodes at once, {others}, larger nodes, or a narrower gang)"
    )


def _fits_if(milli: str, demand: tuple[int, ...], cpu: int, machines: Sequence[Node]) -> bool:
    """Whether the demand would fit had its CPU been written in milli-CPU: 500 for 500m is a common slip."""
    try:
        steps = to_steps("cpu", milli, round_up=True)
    except SchedulerError:
        return False
    smaller = (*demand[:cpu], steps, *demand[cpu + 1 :])
    return any(fits(smaller, node.capacity) for node in machines)


def _too_large(demand: tuple[int, ...], machines: Sequence[Node], resources: Resources) -> str:
    shown = _show(demand, resources)
    kinds = list(dict.fromkeys(node.capacity for node in machines))
    largest = sorted(kinds, reverse=True)[:3]
    listed = " or ".join(_show(capacity, resources) for capacity in largest)
    each = "every node has" if len(kinds) == 1 else "the largest nodes have"
    return f"a task of {shown} is larger than every node ({each} {listed})"


def _show(vector: tuple[int, ...], resources: Resources) -> str:
    return ", ".join(f"{name} {value}" for name, value in resources.show(vector).items()) or "nothing"


def _workload_issues(loaded: Loaded, workload: Workload) -> Iterator[Issue]:
    at = ("spec", "workload")
    if not workload.jobs:
        yield loaded.issue(at, "the workload is empty: expected at least one job")
        return
    yield from _unknown_queues(loaded, workload)
    yield from _policies_and_queues(loaded, workload)
    yield from _unknown_hosts(loaded, workload)
    yield from _never_in_queue(loaded, workload)
    yield from _without_times(loaded, workload)
    yield from decentralised.workload_issues(loaded, workload)
    yield from fault_checks.workload_issues(loaded, workload)
    if loaded.scenario.spec.cluster.executors is None and workload.uses_waves:
        message = "run times measured per executor need executors (write `executors: {}` here)"
        if isinstance(loaded.scenario.spec.workload, TpchWorkload):
            message = f"{message}, or `durations: per_task` in the workload"
        yield loaded.issue(("spec", "cluster"), message)
    if isinstance(loaded.scenario.spec.workload, JobsWorkload):
        return  # looked at already, where each demand is written
    resources = Resources(workload.resources)
    machines = nodes(loaded.scenario.spec.cluster.nodes, resources)
    capacities = list(dict.fromkeys(node.capacity for node in machines))
    large: dict[tuple[int, ...], list[str]] = {}
    for entry in workload.jobs:
        for stage in entry.job.stages:
            if not any(fits(stage.demand, capacity) for capacity in capacities):
                large.setdefault(stage.demand, []).append(f"job '{entry.job.id}' stage '{stage.name}'")
    for demand, places in list(large.items())[:SHOWN]:
        others = f" and {len(places) - 1} more" if len(places) > 1 else ""
        yield loaded.issue(at, f"{places[0]}{others}: {_too_large(demand, machines, resources)}")
    if not large:
        yield from _never_together(loaded, workload, machines)


def _never_together(loaded: Loaded, workload: Workload, machines: Sequence[Node]) -> Iterator[Issue]:
    """Gangs too wide ever to start at once, and stages without any node left."""
    tainted = any(node.taints for node in machines)
    seen: dict[tuple[Vector, Places, int], str] = {}
    for entry in workload.jobs:
        for stage in entry.job.stages:
            if not (stage.gang or tainted or stage.places is not ANYWHERE) or not any(stage.demand):
                continue
            key = (stage.demand, stage.places, stage.tasks if stage.gang else 1)
            if key not in seen:
                seen[key] = _never_starts(loaded, key[0], key[1], machines, key[2])
                if seen[key]:
                    where = f"job '{entry.job.id}' stage '{stage.name}'"
                    yield loaded.issue(("spec", "workload"), f"{where}: {seen[key]}")
            if sum(map(bool, seen.values())) == SHOWN:
                return


def _unknown_hosts(loaded: Loaded, workload: Workload) -> Iterator[Issue]:
    """The first host of a task that is no node of the cluster."""
    hosts = (
        (e.job.id, stage, host) for e in workload.jobs for stage in e.job.stages for h in stage.hosts for host in h
    )
    known: set[str] | None = None
    for job, stage, host in hosts:
        if known is None:
            known = {node.id for node in nodes(loaded.scenario.spec.cluster.nodes, Resources(workload.resources))}
        if host not in known:
            message = f"job '{job}' stage '{stage.name}' has input on '{host}', which is not a node"
            yield loaded.issue(("spec", "workload"), message, did_you_mean(nearest(host, known)))
            return


def _without_times(loaded: Loaded, workload: Workload) -> Iterator[Issue]:
    """The first stage whose run times by node leave out a node; written-out jobs say so at their place."""
    block, names = loaded.scenario.spec.workload, dict[str, None]()
    for entry in workload.jobs if not isinstance(block, JobsWorkload) else ():
        for stage, times in zip(entry.job.stages, entry.runtimes, strict=True):
            if not isinstance(times, PerNode):
                continue
            groups = loaded.scenario.spec.cluster.nodes
            names = names or dict.fromkeys(node.id for node in nodes(groups, Resources(workload.resources)))
            missing = next((name for name in names if name not in times.nodes), None)
            if missing is not None:
                known = ", ".join(times.nodes[:SHOWN]) + (", ..." if len(times.nodes) > SHOWN else "")
                where = f"job '{entry.job.id}' stage '{stage.name}'"
                message = f"{where} has run times by node ({known}), but none for node '{missing}'"
                yield loaded.issue(("spec", "workload"), message)
                return


def _never_in_queue(loaded: Loaded, workload: Workload) -> Iterator[Issue]:
    """Tasks larger than the limit of their queue, or of a user in the queue."""
    resources = Resources(workload.resources)
    tree = QueueTree(len(resources))
    for queue in loaded.scenario.spec.queues:
        tree.put(core_queue(queue, resources))
    tree.resize(_capacity(loaded, resources))
    seen: dict[tuple[str, tuple[int, ...], int], None] = {}
    for entry in workload.jobs:
        for stage in entry.job.stages:
            together = stage.tasks if stage.gang else 1
            if (entry.job.queue, stage.demand, together) in seen:
                continue
            seen[entry.job.queue, stage.demand, together] = None
            for account in tree.path(entry.job.queue, entry.job.user).bounds:
                r = account.scarce(stage.demand, together)
                if r is not None:
                    most = amount(account.limit, _capacity(loaded, resources))[r]
                    who = "a user" if account.user is not None else "it"
                    name = resources.names[r]
                    what = "a task of" if together == 1 else f"a gang of {together} tasks of"
                    message = (
                        f"job '{entry.job.id}' stage '{stage.name}': {what} {_show(stage.demand, resources)} never "
                        f"starts in queue '{account.queue}', where {who} may hold {show_steps(name, most)} of {name}"
                    )
                    yield loaded.issue(("spec", "workload"), message)
                    break


def _policies_and_queues(loaded: Loaded, workload: Workload) -> Iterator[Issue]:
    """Mistakes that policies find in the queues."""
    spec = loaded.scenario.spec
    resources = Resources(workload.resources)
    queues = {queue.name: core_queue(queue, resources) for queue in spec.queues}
    used = dict.fromkeys(entry.job.queue for entry in workload.jobs)
    for index, policy in enumerate(spec.policies):
        cls, params = policies.parse({"kind": policy.kind, **policy.settings})
        try:
            found = [(keys, str(message)) for keys, message in queue_mistakes(cls, params, queues, used)]
        except Exception as error:  # a plug-in's own
            found = [(("kind",), f"policy '{policy.kind}' cannot look at the queues: {type(error).__name__}: {error}")]
        for keys, message in found:
            yield loaded.issue(("spec", "policies", index, *keys), message)


def _unknown_queues(loaded: Loaded, workload: Workload) -> Iterator[Issue]:
    queues = loaded.scenario.spec.queues
    if not queues:
        return
    parents = {queue.parent for queue in queues}
    leaves = [queue.name for queue in queues if queue.name not in parents]
    block = loaded.scenario.spec.workload
    named: list[tuple[tuple[str | int, ...], str]] = [
        ((), q) for q in dict.fromkeys(e.job.queue for e in workload.jobs)
    ]
    if isinstance(block, JobsWorkload):
        named = [(("jobs", index, "queue"), job.queue) for index, job in enumerate(block.jobs)]
    for path, queue in named:
        if queue not in leaves:
            what = "has queues below it, jobs sit in leaves" if queue in parents else "is not declared"
            message = f"queue '{queue}' {what} (accepted: {', '.join(leaves)})"
            yield loaded.issue(("spec", "workload", *path), message, did_you_mean(nearest(queue, leaves)))
