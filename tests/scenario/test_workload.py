from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from rm_emulator.engine.config import Executors
from rm_emulator.scenario.check import check
from rm_emulator.scenario.cluster import engine_config, nodes, resources_of, slots
from rm_emulator.scenario.load import load
from rm_emulator.scenario.schema.cluster import Nodes
from rm_emulator.scenario.workload import build, description, in_resources, launches, offered
from rm_emulator.workload import storage
from rm_emulator.workload.model import Drawn, Fixed, PerNode, PerTask, Remote
from rm_emulator.workload.work import offered_load
from schedulers.core.errors import InvalidParameters
from schedulers.core.model import Edge, Job, Links, Node
from schedulers.core.resources import Resources

Write = Callable[..., Path]
JOBS = """\
    kind: jobs
    jobs:
    - name: a
      stages:
      - {name: m, tasks: 2, demand: {cpu: 1}, duration: 3s}
      - {name: r, demand: {cpu: 1}, parents: [m], duration: 2s}
"""


def group(**settings: object) -> Nodes:
    return Nodes.model_validate({"capacity": {"cpu": 1}, **settings})


def ids(*groups: Nodes) -> list[str]:
    return [node.id for node in nodes(groups, Resources())]


def test_node_names_have_leading_zeros_so_that_their_order_is_that_of_numbers() -> None:
    assert ids(group(count=10))[:2] == ["n01", "n02"]


def test_groups_without_a_name_are_numbered_on() -> None:
    assert ids(group(count=2), group(count=1)) == ["n1", "n2", "n3"]


def test_a_single_named_node_has_just_that_name() -> None:
    assert ids(group(name="gpu"), group(name="cpu", count=2)) == ["gpu", "cpu1", "cpu2"]


def test_racks_are_blocks_of_a_group() -> None:
    assert [n.rack for n in nodes([group(count=4, racks=2)], Resources())] == ["rack1", "rack1", "rack2", "rack2"]


def test_a_cluster_becomes_integers(write: Write) -> None:
    path = write(("heartbeat: 1s", "heartbeat: 500ms\n    executors: {moving_delay: 3s}\n    mode: naive"))
    scenario = load(path).scenario
    config = engine_config(scenario, resources_of(scenario))
    assert config.nodes == (Node(id="n1", capacity=(2000, 4096)), Node(id="n2", capacity=(2000, 4096)))
    assert (config.heartbeat_ms, config.skip, config.executors) == (500, False, Executors(moving_ms=3000))


def test_slots_count_a_fast_node_for_more(write: Write) -> None:
    scenario = load(write(("count: 2", "count: 2, speed: 1.5"))).scenario
    assert slots(scenario, {"cpu": 1}) == 6


@pytest.mark.parametrize(
    ("text", "runtimes"),
    [
        ("3s", Fixed(3000)),
        ("[1s, 2s]", PerTask((1000, 2000))),
        ("{kind: gamma, mean: 4s, cov: 0.5}", Drawn(4000.0, 0.5, "gamma")),
        ("{by_node: {n1: 3s, n2: 5s}}", PerNode(("n1", "n2"), ((3000, 5000),))),
        ("{by_node: {n1: [3s, 4s], n2: 5s}}", PerNode(("n1", "n2"), ((3000, 5000), (4000, 5000)))),
    ],
)
def test_durations_become_run_times(write: Write, text: str, runtimes: object) -> None:
    workload = build(load(write(("duration: 3s", f"duration: {text}"))).scenario, Path(), 1).workload
    assert workload.jobs[0].runtimes[0] == runtimes


def test_parents_become_indexes(write: Write) -> None:
    workload = build(load(write()).scenario, Path(), 1).workload
    assert [stage.parents for stage in workload.jobs[0].job.stages] == [(), (0,)]


@pytest.mark.parametrize(("size", "data"), [("120MiB", 120 * 2**20), ("1kB", 1000), ("1.5Gi", 3 * 2**29), ("7", 7)])
def test_an_edge_carries_data_beside_those_that_carry_none(write: Write, size: str, data: int) -> None:
    workload = build(
        load(write(("parents: [m]", f"parents: [{{stage: m, data: {size}}}]"))).scenario, Path(), 1
    ).workload
    assert [stage.parents for stage in workload.jobs[0].job.stages] == [(), (Edge(parent=0, data=data),)]


def test_an_edge_without_data_is_an_index_however_it_is_written(write: Write) -> None:
    workload = build(load(write(("parents: [m]", "parents: [{stage: m}]"))).scenario, Path(), 1).workload
    assert workload.jobs[0].job.stages[1].parents == (0,)


def test_links_become_rates_of_bytes_per_second(write: Write) -> None:
    links = "links: {rate: 1Gi, in_rack: 10Gi, between: {n1: {n2: 100Mi}}}"
    scenario = load(write(("heartbeat: 1s", links))).scenario
    config = engine_config(scenario, Resources())
    assert config.links == Links(rate=2**30, in_rack=10 * 2**30, pairs={"n1": {"n2": 100 * 2**20}})


def test_jobs_of_one_name_are_numbered_and_sorted_by_arrival(write: Write) -> None:
    job = "    - {name: a, submit: %s, stages: [{name: m, demand: {cpu: 1}, duration: 1s}]}\n"
    text = "    kind: jobs\n    jobs:\n" + job % "5s" + job % "1s"
    workload = build(load(write((JOBS, text))).scenario, Path(), 1).workload
    assert [(entry.job.id, entry.submit_ms) for entry in workload.jobs] == [("a-2", 1000), ("a-1", 5000)]


def test_inline_history_lies_before_the_start(write: Write) -> None:
    history = "    history:\n    - {name: a, ago: 1m, took: 10s, stages: [{tasks: 2, duration: 3s}]}\n"
    past = build(load(write((JOBS, JOBS + history))).scenario, Path(), 1).workload.history[0]
    assert (past.submitted, past.finished, past.stages) == (-70_000, -60_000, ((2, 3000.0),))


def test_demands_follow_the_cluster_s_resources(write: Write) -> None:
    path = write(("memory: 4Gi", "memory: 4Gi, gpu: 1"), ("demand: {cpu: 1}, duration", "demand: {gpu: 1}, duration"))
    workload = build(load(path).scenario, Path(), 1).workload
    assert workload.resources == ("cpu", "memory", "gpu")
    assert [stage.demand for stage in workload.jobs[0].job.stages] == [(0, 0, 1000), (1000, 0, 0)]


def test_a_workload_in_another_order_of_resources(write: Write) -> None:
    workload = build(load(write()).scenario, Path(), 1).workload
    moved = in_resources(workload, Resources(("memory", "disk", "cpu")))
    assert moved.jobs[0].job.stages[0].demand == (0, 0, 1000)


@pytest.mark.parametrize(
    "text",
    [
        JOBS,
        "    kind: synthetic\n    preset: google11-like\n    jobs: 20\n",
        "    kind: tpch\n    jobs: 5\n    sizes: [2]\n    durations: per_task\n",
        "    kind: dags\n    jobs: 3\n",
        "    kind: lachesis\n    jobs: 3\n    sizes: [2]\n",
    ],
    ids=["jobs", "synthetic", "tpch", "dags", "lachesis"],
)
def test_input_is_on_nodes_of_the_cluster(write: Write, text: str) -> None:
    block = f"{text}    data: {{replicas: 2, remote: {{off: 1.5}}}}\n"
    scenario = load(write((JOBS, block))).scenario
    first, again, other = (build(scenario, Path(), seed).workload for seed in (1, 1, 2))
    stages = [stage for entry in first.jobs for stage in entry.job.stages]
    assert all(len(stage.hosts) == (0 if stage.parents else stage.tasks) for stage in stages)
    assert {host for stage in stages for hosts in stage.hosts for host in hosts} == {"n1", "n2"}
    assert first.remote == Remote(off=1.5)
    assert first == again
    assert first != other


def test_distance_may_cost_time_where_stages_name_their_hosts(write: Write) -> None:
    path = write(
        ("tasks: 2, demand: {cpu: 1}", "tasks: 2, hosts: [n2], demand: {cpu: 1}"),
        ("kind: jobs\n", "kind: jobs\n    data: {remote: {rack: 1.2, off: 2}}\n"),
    )
    workload = build(load(path).scenario, Path(), 1).workload
    assert workload.jobs[0].job.stages[0].hosts == (("n2",),)
    assert workload.remote == Remote(rack=1.2, off=2.0)


@pytest.mark.parametrize(
    "text",
    [
        JOBS,
        "    kind: synthetic\n    preset: google11-like\n    jobs: 20\n",
        "    kind: tpch\n    jobs: 5\n    sizes: [2]\n    durations: per_task\n",
        "    kind: trace\n    path: stored\n",
    ],
    ids=["jobs", "synthetic", "tpch", "trace"],
)
def test_jobs_may_ask_for_something_else_than_their_tasks_use(tmp_path: Path, write: Write, text: str) -> None:
    plain = build(load(write()).scenario, Path(), 1).workload
    storage.save(plain, tmp_path / "stored", overwrite=True)
    true, wrong = (
        build(load(write((JOBS, f"{text}{asks}"))).scenario, tmp_path, 1).workload
        for asks in ("", "    asks: {error: [-0.5, -0.5]}\n")
    )
    assert [entry.usage for entry in wrong.jobs] == [
        tuple(stage.demand for stage in entry.job.stages) for entry in true.jobs
    ]
    assert [stage.demand[0] for entry in wrong.jobs for stage in entry.job.stages] == [
        stage.demand[0] // 2 for entry in true.jobs for stage in entry.job.stages
    ]


def test_container_sizes_are_of_what_is_asked_for() -> None:
    changes = ["spec.cluster.sizes={minimum: {cpu: 1, memory: 1Gi}}", "spec.workload.asks={error: [-0.5, -0.5]}"]
    loaded = load("hello", overrides=[*changes, "spec.workload.jobs[1].stages[0].demand={cpu: 500m, memory: 3Gi}"])
    entry = build(loaded.scenario, loaded.folder, 1).workload.jobs[1]
    assert (entry.job.stages[0].demand, entry.usage[0]) == ((1000, 2048), (500, 3072))


def test_usage_follows_the_cluster_s_resources(write: Write) -> None:
    path = write(("kind: jobs\n", "kind: jobs\n    asks: {error: [0.5, 0.5]}\n"))
    workload = build(load(path).scenario, Path(), 1).workload
    moved = in_resources(workload, Resources(("memory", "disk", "cpu")))
    assert moved.jobs[0].usage == ((0, 0, 1000), (0, 0, 1000))
    assert moved.jobs[0].job.stages[0].demand == (0, 0, 1500)


def test_a_synthetic_workload_has_the_load_asked_for_on_the_cluster_s_slots(write: Write) -> None:
    text = "    {kind: synthetic, preset: google11-like, jobs: 50, load: 0.7, history: false}\n"
    workload = build(load(write((JOBS, text))).scenario, Path(), 1).workload
    work = sum(sum(times.ms) for entry in workload.jobs for times in entry.runtimes if isinstance(times, PerTask))
    span = workload.jobs[-1].submit_ms - workload.jobs[0].submit_ms
    assert work / (4 * span) == pytest.approx(0.7, rel=1e-3)


def test_a_preset_s_jobs_can_be_chains(write: Write) -> None:
    text = "    {kind: synthetic, preset: google11-like, jobs: 20, stages: [2, 3]}\n"
    workload = build(load(write((JOBS, text))).scenario, Path(), 1).workload
    assert {len(entry.job.stages) for entry in workload.jobs} == {2, 3}


def test_workloads_differ_by_seed_alone(write: Write) -> None:
    text = "    {kind: synthetic, preset: google11-like, jobs: 20}\n"
    scenario = load(write((JOBS, text))).scenario
    first, again, other = (build(scenario, Path(), seed).workload for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_tpch_takes_its_interarrival_as_a_duration(write: Write) -> None:
    text = "    {kind: tpch, jobs: 50, interarrival: 10s, sizes: [2], durations: per_task}\n"
    workload = build(load(write((JOBS, text))).scenario, Path(), 1).workload
    assert workload.jobs[-1].submit_ms / 49 == pytest.approx(10_000, rel=0.5)


def test_dags_take_a_time_on_every_node_of_the_cluster(write: Write) -> None:
    workload = build(load(write((JOBS, "    {kind: dags, jobs: 2, tasks: [9]}\n"))).scenario, Path(), 1).workload
    for entry in workload.jobs:
        assert [stage.tasks for stage in entry.job.stages] == [1] * 9
        assert all(isinstance(times, PerNode) and times.nodes == ("n1", "n2") for times in entry.runtimes)


def test_dags_take_one_time_for_all_nodes_where_speeds_make_the_difference(write: Write) -> None:
    text = "    {kind: dags, jobs: 1, tasks: [9], times: by_speed}\n"
    workload = build(load(write((JOBS, text))).scenario, Path(), 1).workload
    assert all(isinstance(times, Fixed) for times in workload.jobs[0].runtimes)


def test_dags_arrive_at_time_0_or_as_a_stream_that_begins_there(write: Write) -> None:
    texts = ("{kind: dags, jobs: 50}", "{kind: dags, jobs: 50, arrivals: poisson, interarrival: 10s}")
    batch, stream = (
        [entry.submit_ms for entry in build(load(write((JOBS, f"    {text}\n"))).scenario, Path(), 1).workload.jobs]
        for text in texts
    )
    assert set(batch) == {0}
    assert stream[0] == 0
    assert stream[-1] / 49 == pytest.approx(10_000, rel=0.5)


def test_the_data_of_lachesis_s_jobs_follows_the_speeds_of_the_cluster(write: Write) -> None:
    text = (JOBS, "    {kind: lachesis, jobs: 3, sizes: [2]}\n")
    slow, fast = (
        build(load(write(text), overrides=[f"spec.cluster.nodes[0].speed={speed}"]).scenario, Path(), 1).workload
        for speed in (1, 4)
    )
    for one, other in zip(slow.jobs, fast.jobs, strict=True):
        for stage, of in zip(one.job.stages, other.job.stages, strict=True):
            assert [edge.data for edge in of.edges] == pytest.approx([edge.data / 4 for edge in stage.edges], abs=1)


@pytest.mark.parametrize("workload", ["{kind: lachesis, jobs: 3, sizes: [2]}", "{kind: dags, jobs: 3, tasks: [9]}"])
def test_twice_the_rate_of_the_links_moves_twice_the_data(write: Write, workload: str) -> None:
    one, two = (
        build(
            load(write((JOBS, f"    {workload}\n")), overrides=[f"spec.cluster.links={{rate: {rate}M}}"]).scenario,
            Path(),
            1,
        )
        for rate in (100, 200)
    )
    for less, more in zip(one.workload.jobs, two.workload.jobs, strict=True):
        for stage, of in zip(less.job.stages, more.job.stages, strict=True):
            assert [edge.data for edge in of.edges] == pytest.approx([edge.data * 2 for edge in stage.edges], abs=1)


def test_equal_jobs_are_written_alike_wherever_their_values_come_from() -> None:
    elsewhere = "".join(["de", "fault"])
    explicit = Job(id="a", stages=(), queue=elsewhere, weight=float("1.0"))
    assert msgspec.json.encode(explicit) == msgspec.json.encode(Job(id="a", stages=()))


def test_a_trace_s_arrivals_are_stretched_to_a_load() -> None:
    loaded = load("my-trace", overrides=["spec.workload.load=0.5"])
    built = build(loaded.scenario, loaded.folder, 1)
    assert offered(loaded.scenario, built) == (pytest.approx(0.5, rel=1e-3), "cpu")


def test_a_load_needs_a_span(tmp_path: Path, write: Write) -> None:
    (tmp_path / "t.csv").write_text("job,tasks,cpu,durations\na,1,1,5\nb,1,1,5\n")
    text = "    {kind: trace, path: t.csv, format: csv, load: 0.5}\n"
    with pytest.raises(InvalidParameters, match="all jobs arrive at the same time"):
        build(load(write((JOBS, text))).scenario, tmp_path, 1)


def test_an_extract_has_history_and_the_load_asked_for() -> None:
    changes = ["spec.workload.extract.jobs=15", "spec.workload.load=0.6", "spec.workload.slots=20"]
    loaded = load("my-trace", overrides=changes)
    workload = build(loaded.scenario, loaded.folder, 1).workload
    assert len(workload.jobs) == 15
    assert workload.history
    assert offered_load(workload, 20) == pytest.approx(0.6, rel=1e-2)


@pytest.mark.drawn(of=4)
def test_the_description_is_measured_against_the_cluster_s_cores() -> None:
    loaded = load("demo")
    found = description(loaded.scenario, build(loaded.scenario, loaded.folder, 1))
    assert found.load is not None
    assert found.load.offered == pytest.approx(1.05, rel=1e-3)


@pytest.mark.parametrize(
    ("changes", "node"),
    [
        ([], {"cpu": "2", "memory": "8Gi"}),
        (["spec.cluster.nodes[0].speed=2"], {"cpu": "16", "memory": "64Gi"}),
    ],
)
def test_the_description_sizes_a_cluster_of_the_scenario_s_nodes(changes: list[str], node: dict[str, str]) -> None:
    loaded = load("hello", overrides=changes)
    sizes = description(loaded.scenario, build(loaded.scenario, loaded.folder, 1)).sizes
    assert sizes is not None
    assert (sizes.node, sizes.derived) == (node, bool(changes))


def test_demands_are_raised_to_the_cluster_s_container_sizes() -> None:
    sizes = "spec.cluster.sizes={minimum: {cpu: 1, memory: 1Gi}, increment: {memory: 512Mi}}"
    loaded = load("hello", overrides=[sizes, "spec.workload.jobs[1].stages[0].demand={cpu: 100m, memory: 1100Mi}"])
    workload = build(loaded.scenario, loaded.folder, 1).workload
    assert workload.jobs[1].job.stages[0].demand == (1000, 1536)


def test_a_demand_above_the_largest_container_is_refused() -> None:
    loaded = load("hello", overrides=["spec.cluster.sizes={minimum: {memory: 1Gi}, maximum: {memory: 2Gi}}"])
    with pytest.raises(ValueError, match="stage 'sum' asks for"):
        build(loaded.scenario, loaded.folder, 1)


TIGHT = """\
    kind: jobs
    jobs:
    - {name: a, stages: [{name: m, tasks: 8, demand: {cpu: 500m, memory: 4Gi}, duration: 10s}]}
    - {name: b, submit: 10s, stages: [{name: m, demand: {cpu: 500m, memory: 4Gi}, duration: 8s}]}
"""


def test_the_load_is_that_of_the_resource_that_binds(write: Write) -> None:
    loaded = load(write((JOBS, TIGHT)))  # 8 x 10 s + 8 s of 4Gi each, on 2 x 4Gi, in 10 s
    assert offered(loaded.scenario, check(loaded)) == (pytest.approx(4.4), "memory")


@pytest.mark.parametrize(
    ("cluster", "each_s"),
    [
        ("profile=events", 0.0),
        ("profile=yarn", 0.5),  # half an interval until the master calls
        ("profile=sls", 1.5),  # and one more until it acts
        ("profile=kubernetes", 0.045),
        ("startup=3s", 3.5),
    ],
)
def test_launches_take_what_the_profile_and_the_start_up_take(cluster: str, each_s: float, write: Write) -> None:
    loaded = load(write((JOBS, TIGHT)), overrides=[f"spec.cluster.{cluster}"])
    mean_s = 88 / 9  # 8 tasks of 10 s and one of 8 s
    assert launches(loaded.scenario, check(loaded)) == pytest.approx(each_s / (each_s + mean_s))


def test_a_workload_with_slots_of_its_own_is_measured_by_them() -> None:
    loaded = load("my-trace", overrides=["spec.workload.slots=20"])
    built = build(loaded.scenario, loaded.folder, 1)
    assert offered(loaded.scenario, built) == (offered_load(built.workload, 20), None)


@pytest.mark.parametrize(("memory", "resource"), [("4Gi", "cpu"), ("512Mi", "memory")])
def test_a_preset_reaches_its_load_on_the_resource_that_binds(memory: str, resource: str) -> None:
    changes = [f"spec.cluster.nodes[0].capacity.memory={memory}", "spec.workload.load=0.9", "spec.workload.jobs=60"]
    loaded = load("demo", overrides=changes)
    assert offered(loaded.scenario, build(loaded.scenario, loaded.folder, 1)) == (
        pytest.approx(0.9, rel=1e-2),
        resource,
    )
