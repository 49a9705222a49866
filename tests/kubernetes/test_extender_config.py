"""The brain's configuration file: what it may say, and how it is told what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from operators.config import InvalidConfig, parse_millis
from operators.extender.config import BrainConfig, load_brain
from operators.extender.process import scheduler_config

SMALL = """\
policy: {kind: fifo}
extender: {tls: null}
"""
FULL = """\
policy: {kind: gs}
predictor: {kind: slearn}
placement: {kind: best_fit}
resources: [cpu, memory, pods, example.com/gpu]
seed: 7
cycle: 100ms
namespace: elsewhere
extender:
  address: 0.0.0.0
  port: 8443
  httpTimeout: 2s
  budget: 0.5
  tls:
    certFile: /tls/tls.crt
    keyFile: /tls/tls.key
    clientCaFile: /tls/ca.crt
    clientNames: [system:kube-scheduler]
    reloadEvery: 1m
management: {address: 127.0.0.1, port: 0}
leaderElection: {name: rm-brain, leaseDuration: 30s, renewDeadline: 20s, retryPeriod: 5s}
storage: {dir: /data, log: full, maxLogBytes: 1000000, history: 10}
snapshot: {everySeconds: 2.5}
releases: {concurrency: 4, expireSeconds: 60}
conditions: {perSecond: 5}
cache: {staleSeconds: 90}
kubeconfig: /etc/kubeconfig
logLevel: debug
"""


def read(folder: Path, text: str) -> BrainConfig:
    file = folder / "brain.yaml"
    file.write_text(text)
    return load_brain(file)


def mistakes(folder: Path, text: str) -> list[str]:
    with pytest.raises(InvalidConfig) as caught:
        read(folder, text)
    return [message.removeprefix(f"{folder / 'brain.yaml'}:") for message in caught.value.messages]


def test_a_small_file_has_defaults_for_all_the_rest(tmp_path: Path) -> None:
    config = read(tmp_path, SMALL)
    assert (config.resources, config.cycle_ms, config.namespace) == (("cpu", "memory", "pods"), 50, "rm-system")
    assert config.extender.budget_s == pytest.approx(4.0)


def test_every_field_is_read(tmp_path: Path) -> None:
    config = read(tmp_path, FULL)
    assert (config.cycle_ms, config.extender.budget_s, config.snapshot.every_s) == (100, 1.0, 2.5)
    assert (config.releases.expire_s, config.cache.stale_s, config.conditions.per_second) == (60, 90, 5)
    assert config.extender.tls is not None
    assert (config.extender.tls.client_names, config.extender.tls.reload_every) == (("system:kube-scheduler",), 60_000)
    assert config.leader_election is not None
    assert config.leader_election.retry_period == 5000


def test_leader_election_can_be_switched_off(tmp_path: Path) -> None:
    assert read(tmp_path, SMALL + "leaderElection: null\n").leader_election is None


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("seed: 7", "sed: 7"), "5: sed: there is no such field, did you mean 'seed'? (accepted: policy, "),
        (("seed: 7", "seed: x"), "5: seed: expected `int`, got 'x'"),
        (("cycle: 100ms", "cycle: 100"), "6: cycle: 100 is not a duration (write a number with a unit, such as 50ms"),
        (("httpTimeout: 2s", "httpTimeout: 0s"), "8: extender: httpTimeout: no time at all"),
        (("port: 8443", "port: 70000"), "10: extender.port: expected `int` <= 65535, got 70000"),
        (("budget: 0.5", "budget: 1.5"), "12: extender.budget: expected `float` <= 1.0, got 1.5"),
        (("    certFile: /tls/tls.crt\n", ""), "13: extender.tls: 'certFile' is missing"),
        (("[system:kube-scheduler]", "[]"), "13: extender.tls: clientNames: names nobody"),
        (("kind: gs", "kind: gss"), "1: policy.kind: unknown policy 'gss', did you mean 'gs'?"),
        (("kind: slearn", "kind: oracle"), "2: predictor.kind: predictor 'oracle' needs what only an emulator knows"),
        (("{kind: slearn}", "slearn"), "2: predictor: expected a mapping or null, got 'slearn'"),
        (
            ("{kind: slearn}", "{kind: slearn, pilot: 1}"),
            "2: predictor.pilot: predictor 'slearn' has no setting 'pilot'",
        ),
        (("{kind: slearn}", "null"), "1: policy: policy 'gs' orders jobs by estimated run time: give it a predictor"),
        (
            ("{kind: gs}", "{kind: capacity, preemption: {enabled: true}}"),
            "1: policy.preemption: policy 'capacity' would have pods stopped, and brain evicts none",
        ),
        (("{kind: gs}", "{}"), "1: policy.kind: is missing (known: "),
        (("pods, ", ""), "4: resources: 'pods' is missing: nodes could be filled beyond what they take"),
        (("pods, ", "pods, cpu, "), "4: resources[3]: 'cpu' is named twice"),
        (("renewDeadline: 20s", "renewDeadline: 40s"), "20: leaderElection: lease times do not fit"),
        (("retryPeriod: 5s", "retryPeriod: 18s"), "20: leaderElection: lease times do not fit"),
        (("log: full", "log: some"), "21: storage.log: invalid enum value 'some'"),
        (("concurrency: 4", "concurrency: 0"), "23: releases.concurrency: expected `int` >= 1, got 0"),
        (("seed: 7", "seed: 7\nseed: 8"), "6: seed: is given twice, first in line 5"),
        (("seed: 7", "seed: ["), " is not YAML"),
    ],
)
def test_a_mistake_is_said_with_its_place(tmp_path: Path, change: tuple[str, str], says: str) -> None:
    assert change[0] in FULL
    messages = mistakes(tmp_path, FULL.replace(*change))
    assert len(messages) == 1
    assert says in messages[0]


@pytest.mark.parametrize("kind", ["fifo", "fair", "drf", "hdrf", "las", "capacity", "fair_yarn"])
def test_policies_for_a_cluster(tmp_path: Path, kind: str) -> None:
    assert read(tmp_path, SMALL.replace("fifo", kind)).policy == {"kind": kind}


def test_all_mistakes_are_said_at_once(tmp_path: Path) -> None:
    text = FULL.replace("seed: 7", "seed: x").replace("kind: gs", "kind: gss").replace("port: 8443", "prt: 1")
    assert len(mistakes(tmp_path, text)) == 3


def test_no_tls_beyond_loopback_is_refused(tmp_path: Path) -> None:
    messages = mistakes(tmp_path, "policy: {kind: fifo}\nextender: {address: 10.0.0.1, tls: null}\n")
    assert messages == [
        "2: extender: tls: null, but address '10.0.0.1' can be reached from elsewhere: anybody could ask for nodes "
        "(give tls certFile, keyFile and clientCaFile, or the address 127.0.0.1)"
    ]


def test_tls_is_never_left_out_by_accident(tmp_path: Path) -> None:
    assert mistakes(tmp_path, "policy: {kind: fifo}\nextender: {}\n") == ["2: extender: 'tls' is missing"]


def test_an_empty_file_says_what_is_missing(tmp_path: Path) -> None:
    assert [message.strip() for message in mistakes(tmp_path, "")] == ["'policy' is missing", "'extender' is missing"]


def test_a_file_that_is_not_there_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"none\.yaml: cannot be read: No such file or directory"):
        load_brain(tmp_path / "none.yaml")


def test_a_list_is_no_configuration(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="expected a mapping, got a list"):
        read(tmp_path, "- a\n")


@pytest.mark.parametrize(("text", "ms"), [("50ms", 50), ("1.5s", 1500), ("2m", 120_000), ("1h", 3_600_000)])
def test_durations_have_units(text: str, ms: int) -> None:
    assert parse_millis(text) == ms


@pytest.mark.parametrize("text", ["", "5", 5, "5 years", "-1s", "0.1ms", None, True])
def test_what_is_no_duration_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match=r"is not a duration|is too short"):
        parse_millis(text)


# -- a manifest, and YAML that is meant to hurt -----------------------------------------------------

MANIFEST = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: rm-other}
data: {config.yaml: "a: b"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: rm-brain}
data:
  config.yaml: |
    policy: {kind: fifo}
    cycle: 50
    extender: {tls: null}
"""


def test_the_configuration_inside_a_manifest_is_checked_where_it_stands(tmp_path: Path) -> None:
    assert read(tmp_path, MANIFEST.replace("50", "70ms")).cycle_ms == 70
    assert mistakes(tmp_path, MANIFEST) == [
        "12: cycle: 50 is not a duration (write a number with a unit, such as 50ms, 2s, 1.5m, 1h)"
    ]
    assert mistakes(tmp_path, MANIFEST.replace("{kind: fifo}", "{kind: ")) == [
        "12: is not YAML: expected ',' or '}', but got ':'"
    ]


def test_a_manifest_without_the_process_is_told_what_it_has(tmp_path: Path) -> None:
    (said,) = mistakes(tmp_path, MANIFEST.replace("rm-brain", "rm-brian"))
    assert said == " there is no ConfigMap 'rm-brain' with config.yaml in it (rm-other, rm-brian)"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"{SMALL}---\n{SMALL}", " has 2 YAML documents: expected one"),
        (f"{SMALL}seed: 2001-99-99\n", "3: seed: '2001-99-99': month must be in 1..12"),
        (f"{SMALL}seed: !!int abc\n", "3: seed: 'abc': invalid literal"),
        (f"{SMALL}seed: {'[' * 5000}\n", " is nested too deeply"),
        ("a0: &a0 [1, 1]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 30)), " has more than"),
    ],
    ids=["documents", "date", "tag", "deep", "aliases"],
)
def test_hostile_yaml_is_one_message(tmp_path: Path, text: str, says: str) -> None:
    assert mistakes(tmp_path, text)[0].startswith(says)


@pytest.mark.parametrize(
    ("policy", "after"),
    [("fifo", 30_000), ("hdrf", 30_000), ("capacity", None), ("fair_yarn", None)],
)
def test_the_core_reserves_nodes_unless_the_policy_does_so_itself(
    tmp_path: Path, policy: str, after: int | None
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(SMALL.replace("fifo", policy) + "reserveAfter: 30s\n")
    assert scheduler_config(load_brain(file)).reserve_after == after


def test_a_policy_without_an_order_that_holds_does_not_go_with_lines_of_nodes(tmp_path: Path) -> None:
    (mistake,) = mistakes(tmp_path, "policy: {kind: hdrf}\nplacement: {kind: deft}\nextender: {tls: null}\n")
    assert mistake.startswith("2: placement: placement 'deft' assigns tasks before they can start, in the policy's")


def test_where_tasks_wait_in_lines_of_nodes_none_are_reserved(tmp_path: Path) -> None:
    config = read(tmp_path, "policy: {kind: fifo}\nplacement: {kind: deft}\nreserveAfter: 30s\nextender: {tls: null}\n")
    assert scheduler_config(config).reserve_after is None


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("{kind: shared_state}", "'shared_state' is for the emulator: the API server binds a pod without a look"),
        ("{kind: two_level}", "'two_level' is for the emulator: nothing in a cluster locks free room"),
        ("{kind: decentralised}", "'decentralised' is for the emulator: kubelets keep no queues of reservations"),
        ("{kind: central, t_job: 1s}", "'central' with think times is for the emulator"),
        ("{kind: mesos}", "'mesos' is no architecture of a cluster (expected central, or nothing)"),
        ("shared_state", "'shared_state' is for the emulator"),
    ],
)
def test_other_architectures_are_refused_by_name(written: str, why: str, tmp_path: Path) -> None:
    text = f"policy: {{kind: fifo}}\narchitecture: {written}\nextender: {{tls: null}}\n"
    (said,) = mistakes(tmp_path, text)
    assert said.startswith(f"2: architecture: {why}")


def test_one_scheduler_that_sees_all_is_what_the_brain_is(tmp_path: Path) -> None:
    (tmp_path / "brain.yaml").write_text("policy: {kind: fifo}\narchitecture: {kind: central}\nextender: {tls: null}\n")
    assert load_brain(tmp_path / "brain.yaml").policy == {"kind": "fifo"}


def test_copies_are_refused(tmp_path: Path) -> None:
    text = "policy: {kind: fifo}\nplacement: {kind: deft}\ncopies: {max: 2}\nextender: {tls: null}\n"
    assert mistakes(tmp_path, text) == ["3: copies: in a cluster a pod runs once: leave copies out"]


@pytest.mark.parametrize("planner", ["tds", "dfrn", "tdca"])
def test_planners_that_copy_tasks_are_refused(tmp_path: Path, planner: str) -> None:
    text = f"policy: {{kind: planned, planner: {planner}}}\npredictor: {{kind: slearn}}\nextender: {{tls: null}}\n"
    (mistake,) = mistakes(tmp_path, text)
    says = "policy 'planned' would copy tasks, and in a cluster a pod runs once: take another planner"
    assert mistake == f"1: policy.planner: {says}"


@pytest.mark.parametrize("planner", ["heft", "cpop", "dls", "peft", "etf"])
def test_planners_that_do_not_are_accepted(tmp_path: Path, planner: str) -> None:
    text = f"policy: {{kind: planned, planner: {planner}}}\npredictor: {{kind: slearn}}\nextender: {{tls: null}}\n"
    assert read(tmp_path, text).policy["planner"] == planner


def test_plays_do_without_copies_in_a_cluster(tmp_path: Path) -> None:
    text = "policy: {kind: played}\npredictor: {kind: slearn}\nextender: {tls: null}\n"
    assert read(tmp_path, text).policy["kind"] == "played"
