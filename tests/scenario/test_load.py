from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from rm_emulator.issues import InvalidInput
from rm_emulator.scenario import schema
from rm_emulator.scenario.load import load
from rm_emulator.scenario.schema import json_schema

Write = Callable[..., Path]
Mistakes = Callable[..., list[str]]


def test_a_valid_file_loads(write: Write) -> None:
    assert load(write()).scenario.metadata.name == "small"


def test_durations_are_milliseconds(write: Write) -> None:
    assert load(write(("heartbeat: 1s", "heartbeat: 500ms"))).scenario.spec.cluster.heartbeat == 500


def test_a_number_with_an_exponent_is_a_number(write: Write) -> None:
    path = write(("tasks: 2", "tasks: 1e3"), ("duration: 3s", "duration: 1e3"))
    stage = load(path).scenario.spec.workload.jobs[0].stages[0]
    assert (stage.tasks, stage.duration) == (1000, 1_000_000)


def test_a_label_left_out_is_the_policy_s_kind(write: Write) -> None:
    path = write(("label: sjf, ", ""))
    assert [p.label for p in load(path).scenario.spec.policies] == ["fifo", "sjf"]


def test_memory_of_a_few_bytes_is_a_number_whose_unit_was_forgotten(write: Write) -> None:
    with pytest.raises(InvalidInput) as refused:
        load(write(("memory: 4Gi", "memory: 4")))
    assert "memory: 4 is less than a mebibyte (a number without unit is bytes), did you mean '4Gi' or '4Mi'?" in str(
        refused.value
    )


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            "heartbeat: 1s",
            "heartbeet: 1s",
            "s.yaml:9:5 spec.cluster.heartbeet: unknown key 'heartbeet' (accepted: nodes, profile, heartbeat, ",
        ),
        ("heartbeat: 1s", "heartbeat: 1 sec", "s.yaml:9:16 spec.cluster.heartbeat: unknown unit 'sec' in"),
        ("heartbeat: 1s", "heartbeat: 0", "s.yaml:9:16 spec.cluster.heartbeat: is 0: expected a duration above zero"),
        (
            "profile: yarn",
            "profile: yran",
            "s.yaml:8:14 spec.cluster.profile: 'yran' is not accepted (expected 'events', 'kubernetes', 'sls' "
            "or 'yarn'), did you mean 'yarn'?",
        ),
        (
            "memory: 4Gi",
            "memory: 4GiB",
            "s.yaml:7:51 spec.cluster.nodes[0].capacity.memory: not a quantity: '4GiB' "
            "(write a number such as 4, 500m, 1.5Gi), did you mean '4Gi'?",
        ),
        ("memory: 4Gi", "memory: -4Gi", "s.yaml:7:51 spec.cluster.nodes[0].capacity.memory: negative quantity: '-4Gi'"),
        ("count: 2", "count: 0", "s.yaml:7:21 spec.cluster.nodes[0].count: 0 is not accepted (expected at least 1)"),
        (
            "count: 2",
            "count: 1e12",
            "s.yaml:7:21 spec.cluster.nodes[0].count: 1000000000000 is not accepted (expected at",
        ),
        ("count: 2", "count: yes", "s.yaml:7:21 spec.cluster.nodes[0].count: 'yes' is not accepted (expected a whole"),
        ("tasks: 2", "tasks: 1.5", "s.yaml:15:26 spec.workload.jobs[0].stages[0].tasks: 1.5 is not accepted"),
        ("duration: 3s", "duration: -3s", "s.yaml:15:57 spec.workload.jobs[0].stages[0].duration: negative duration"),
        ("duration: 3s", "duration: .nan", "s.yaml:15:57 spec.workload.jobs[0].stages[0].duration: not a duration"),
        (
            "duration: 3s",
            "duration: [3s, -1s]",
            "s.yaml:15:62 spec.workload.jobs[0].stages[0].duration[1]: negative duration: '-1s'",
        ),
        (
            "duration: 3s",
            "duration: {kind: lognrmal, mean: 3s}",
            "s.yaml:15:64 spec.workload.jobs[0].stages[0].duration.kind: 'lognrmal' is not accepted",
        ),
        ("name: a", "name: a\n      queu: x", "s.yaml:14:7 spec.workload.jobs[0].queu: unknown key 'queu'"),
        (
            "kind: jobs",
            "kind: jbos",
            "s.yaml:11:11 spec.workload.kind: unknown kind 'jbos' (accepted: synthetic, tpch, dags, "
            "lachesis, mixed, production_dags, trace, jobs), "
            "did you mean 'jobs'?",
        ),
        (
            "    kind: jobs\n",
            "",
            "s.yaml:11:5 spec.workload: kind is missing "
            "(accepted: dags, jobs, lachesis, mixed, production_dags, synthetic, tpch, trace)",
        ),
        ("kind: fifo", "kind: fiffo", "s.yaml:18:12 spec.policies[0].kind: unknown policy 'fiffo' (accepted: "),
        ("kind: oracle", "kind: oracel", "s.yaml:19:47 spec.policies[1].predictor.kind: unknown predictor 'oracel'"),
        (
            "{kind: fifo}",
            "{kind: fifo, tie: cofl}",
            "s.yaml:18:23 spec.policies[0].tie: 'cofl' is not accepted (expected ",
        ),
        ("{kind: fifo}", "{kind: fifo, tei: id}", "s.yaml:18:18 spec.policies[0].tei: 'fifo' has no setting 'tei'"),
        (
            "predictor: {kind: oracle}",
            "predictor: oracle",
            "s.yaml:19:40 spec.policies[1].predictor: 'oracle' is not accepted (write {kind: NAME}), "
            "did you mean '{kind: oracle}'?",
        ),
        (
            "{kind: fifo}",
            "{kind: fifo, placement: {kind: first_fti}}",
            "s.yaml:18:36 spec.policies[0].placement.kind: unknown placer 'first_fti'",
        ),
        ("seeds: [1]", "seeds: 5..1", "s.yaml:5:10 spec.seeds: empty range of seeds: '5..1'"),
        ("seeds: [1]", "seeds: [a]", "s.yaml:5:10 spec.seeds: not a seed: 'a'"),
        ("name: small", "name: a/b", "s.yaml:3:18 metadata.name: 'a/b' is not accepted"),
        ("kind: Scenario", "kind: Senario", "s.yaml:2:7 kind: a document of kind 'Senario': expected 'Scenario', did"),
        ("v1alpha1", "v2", "s.yaml:1:13 apiVersion: 'rm-emulator.io/v2' is not accepted"),
        ("  baseline: fifo\n", "  baseline: 3\n", "s.yaml:20:13 spec.baseline: 3 is not accepted (expected text"),
        ("profile: yarn", "profile: yarn\n    profile: sls", "s.yaml:9:5 spec.cluster.profile: key 'profile' is given"),
        ("parents: [m]", "parents: m", "s.yaml:16:46 spec.workload.jobs[0].stages[1].parents: 'm' is not accepted"),
    ],
)
def test_a_mistake_of_form_is_named_with_its_place(
    write: Write, mistakes: Mistakes, old: str, new: str, says: str
) -> None:
    (line,) = mistakes(write((old, new)))
    assert line.startswith(says)


def test_all_mistakes_are_named_at_once_in_order_of_position(write: Write, mistakes: Mistakes) -> None:
    path = write(("seeds: [1]", "seds: [1]"), ("count: 2", "cuont: 2"), ("kind: fifo", "kind: lifo"))
    assert [line.split()[0] for line in mistakes(path)] == ["s.yaml:5:3", "s.yaml:7:14", "s.yaml:18:12"]


def test_an_object_without_a_version_is_refused(write: Write, mistakes: Mistakes) -> None:
    path = write(("  baseline: fifo\n", "  baseline: fifo\n---\nkind: Queue\nmetadata: {name: q}\n"))
    assert "s.yaml:22:1: apiVersion is missing (expected rm-emulator.io/v1alpha1)" in mistakes(path)


def test_a_second_scenario_is_refused(write: Write, mistakes: Mistakes) -> None:
    again = "---\napiVersion: rm-emulator.io/v1alpha1\nkind: Scenario\n"
    path = write(("  baseline: fifo\n", f"  baseline: fifo\n{again}"))
    assert "s.yaml:23:7 kind: a second Scenario: one a file is accepted" in mistakes(path)


def test_a_list_is_not_a_scenario(write: Write, mistakes: Mistakes) -> None:
    assert mistakes(write(text="- a\n")) == [
        "s.yaml:1:1: expected a mapping with apiVersion, kind, metadata, spec; got a list"
    ]


def test_missing_blocks_are_named(write: Write, mistakes: Mistakes) -> None:
    lines = mistakes(write(text="kind: Scenario\nspec: {}\n"))
    assert [line.partition(": ")[2] for line in lines] == [
        "'apiVersion' is missing (expected rm-emulator.io/v1alpha1)",
        "'metadata' is missing",
        "'cluster' is missing",
        "'workload' is missing",
        "'policies' is missing",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "spec.policies[0].tie=random",
        "spec.cluster.disorder.delay=0.1",
        "metadata.name=other",
        "spec.workload.jobs[0].stages[0].tasks=1e3",
        'spec["baseline"]=sjf',
    ],
)
def test_set_takes_every_form_of_path(write: Write, text: str) -> None:
    load(write(), overrides=[text])


def test_set_changes_the_value(write: Write) -> None:
    assert load(write(), overrides=["spec.cluster.heartbeat=3s"]).scenario.spec.cluster.heartbeat == 3000


def test_set_makes_the_blocks_on_the_way(write: Write) -> None:
    disorder = load(write(), overrides=["spec.cluster.disorder.delay=0.1"]).scenario.spec.cluster.disorder
    assert disorder is not None
    assert disorder.delay == 0.1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("spec.policies[7].tie=id", "--set spec.policies[7].tie=id: spec.policies has 2 entries: expected [0] to [1]"),
        ("spec.policies.tie=id", "--set spec.policies.tie=id: spec.policies is a list, it has no 'tie'"),
        ("spec.seeds[0][0]=1", "--set spec.seeds[0][0]=1: spec.seeds[0] is 1, it has no [0]"),
        ("spec.baseline", "--set spec.baseline: expected PATH=VALUE, such as spec.workload.load=0.8"),
        ("load=3", "--set load=3: a path begins with 'spec' or 'metadata', such as spec.workload.load"),
        ("spec..x=3", "--set spec..x=3: the path cannot be read at '..x'"),
        ("spec.cluster.profile=[1", "--set spec.cluster.profile=[1: not YAML"),
        (
            "spec.cluster.profile=yran",
            "--set spec.cluster.profile=yran: 'yran' is not accepted (expected 'events', 'kubernetes', 'sls' o",
        ),
        ("spec.cluster.executors.warmpu=1s", "--set spec.cluster.executors.warmpu=1s: unknown key 'warmpu'"),
    ],
)
def test_a_bad_set_is_named_as_the_option(write: Write, mistakes: Mistakes, text: str, says: str) -> None:
    (line,) = mistakes(write(), text)
    assert line.startswith(says)


def test_seeds_of_the_command_line_replace_the_file_s(write: Write) -> None:
    assert load(write(), seeds="3..5").scenario.spec.seeds == [3, 4, 5]


def test_bad_seeds_of_the_command_line(write: Write, mistakes: Mistakes) -> None:
    assert mistakes(write(), seeds="x") == ["--seeds x: not a list of seeds: 'x' (write [1, 2, 3] or 1..5)"]


def test_an_unknown_file_names_what_is_near(write: Write, tmp_path: Path) -> None:
    write()
    with pytest.raises(InvalidInput, match=r"t.yaml: no such file.*did you mean '.*s.yaml'"):
        load(tmp_path / "t.yaml")


def test_an_unknown_name_suggests_an_example() -> None:
    with pytest.raises(InvalidInput, match="did you mean 'hello'"):
        load("helo")


def test_a_folder_is_not_a_scenario(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is a folder"):
        load(tmp_path)


def test_a_value_that_contains_itself_is_refused(write: Write, mistakes: Mistakes) -> None:
    path = write(("seeds: [1]", "queues: &q [*q]"))
    assert mistakes(path)


def test_the_json_schema_knows_policies_and_their_settings() -> None:
    text = json.dumps(json_schema())
    assert '"const": "gs"' in text
    assert '"three_sigma"' in text
    assert "first_threshold_ms" in text


@pytest.mark.parametrize(
    ("policies", "labels"),
    [
        ("[{kind: fifo}, {kind: jockey, inner: {kind: fair}, predictor: {kind: oracle}}]", ["fifo", "jockey"]),
        (
            "[{kind: gs, predictor: {kind: slearn}}, {kind: gs, predictor: {kind: three_sigma}}]",
            ["slearn", "three_sigma"],
        ),
        (
            "[{kind: sjf, predictor: {kind: oracle}}, {kind: sjf, predictor: {kind: slearn}}]",
            ["sjf-oracle", "sjf-slearn"],
        ),
        ("[{kind: fifo, label: sjf}, {kind: sjf, predictor: {kind: oracle}}]", ["sjf", "sjf-oracle"]),
        ("[{kind: gs, predictor: {kind: oracle}}, {kind: fifo, label: 3sigma}]", ["oracle", "3sigma"]),
    ],
)
def test_a_policy_without_label_is_called_by_its_kind_and_with_its_predictor_on_a_clash(
    policies: str, labels: list[str]
) -> None:
    assert [policy["label"] for policy in schema._labelled(yaml.safe_load(policies))] == labels
