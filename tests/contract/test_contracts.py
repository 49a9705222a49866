"""Every registered policy, predictor, placer and trace format keeps what the scheduler promises."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rm_emulator.engine.profile import profiles
from rm_emulator.testing import (
    BLIND,
    POLICY_CHECKS,
    Case,
    PolicyCheck,
    Subject,
    case,
    case_for,
    check_format,
    check_profile,
    check_registered,
    check_skipping,
    run_case,
    subjects,
)
from rm_emulator.workload.formats import FORMATS
from schedulers.core.abilities import KeepsNodes
from schedulers.core.decisions import Decision, Place
from schedulers.core.model import CopyRules
from schedulers.core.placer import placers
from schedulers.core.policy import policies
from schedulers.core.predictor import predictors
from schedulers.core.registry import Registry
from tests.examples import examples

PILOTS = {"kind": "slearn", "fixed_percent": 30}
JOCKEY = {"kind": "jockey", "period_ms": 700, "dead_zone_ms": 500, "utility": [[0, 1], [5000, -1]]}
VARIANTS = [
    Subject(policy={"kind": "gs", "work_conserving": False}, predictor=PILOTS),
    Subject(policy={"kind": "gs", "inside": "least_left", "occupancy": True}, predictor=PILOTS),
    Subject(policy={"kind": "gs", "sampling_shares": True, "conserved_charge": "sampling"}, predictor=PILOTS),
    Subject(policy={"kind": "gs", "queues": 3, "first_threshold_ms": 4000.0, "tie": "random"}, predictor=PILOTS),
    Subject(policy={"kind": "gs", "unsized": "last"}, predictor={"kind": "posterior", "narrow": 0, "unsure_above": 0}),
    Subject(policy={"kind": "las", "queues": 4, "first_threshold_ms": 2000.0, "growth": 2.0}),
    Subject(policy={"kind": "fair", "measure": "slots", "tie": "id"}),
    Subject(policy={"kind": "drf", "level": "job", "inside": "fifo"}),
    Subject(policy={"kind": "drf", "level": "user", "tie": "random"}),
    Subject(policy={"kind": "hdrf", "variant": "naive", "inside": "fifo"}),
    Subject(policy={"kind": "hdrf", "variant": "rescale_only"}),
    Subject(policy={"kind": "dispatch", "rule": "fair"}),
    Subject(policy={"kind": "dispatch", "rule": "random"}, predictor=PILOTS),
    Subject(policy={"kind": "graphene", "bundling": False, "deficit": "slot", "kappa": 0.0}, predictor=PILOTS),
    Subject(
        policy={"kind": "graphene", "pick": "fullest", "level": "job", "plan": "path"},
        predictor={"kind": "three_sigma"},
    ),
    Subject(policy={"kind": "graphene", "enough": 1.0, "kappa": 0.05, "plan": "none"}, predictor={"kind": "oracle"}),
    Subject(policy={"kind": "bounded", "policy": {"kind": "gs"}, "kappa": 0.1, "level": "job"}, predictor=PILOTS),
    Subject(policy={"kind": "bounded", "policy": {"kind": "hdrf"}, "kappa": 0.0, "deficit": "slot"}),
    Subject(policy=JOCKEY, predictor={"kind": "oracle", "error": [-0.5, 1.0]}),
    Subject(policy={**JOCKEY, "policy": {"kind": "gs"}, "indicator": "cp"}, predictor=PILOTS),
    Subject(policy={**JOCKEY, "policy": {"kind": "drf"}, "control": "amdahl"}, predictor={"kind": "three_sigma"}),
    Subject(policy={**JOCKEY, "policy": {"kind": "sjf"}, "control": "max"}, predictor={"kind": "oracle"}),
    Subject(policy={"kind": "tetrisched", "admission": "calendar"}, predictor={"kind": "oracle"}),
    Subject(
        policy={"kind": "rayon", "fit": "earliest", "padding": 0.2, "preemption": {"enabled": True}},
        predictor={"kind": "oracle", "error": [-0.5, 1.0]},
    ),
    Subject(policy={"kind": "fifo", "tie": "random"}, placement={"kind": "best_fit", "tie": "random"}),
    Subject(policy={"kind": "curves", "inverted_levels": False}, predictor={"kind": "three_sigma"}),
    Subject(
        policy={"kind": "replan", "candidates": 4, "plays": 2, "period_s": 1.0, "inverted_levels": False},
        predictor={"kind": "oracle"},
        profile={"kind": "events"},
    ),
    Subject(policy={"kind": "fifo"}, placement={"kind": "deft"}),
    Subject(policy={"kind": "rank_up"}, predictor=PILOTS, placement={"kind": "deft"}),
    Subject(policy={"kind": "sjf"}, predictor={"kind": "posterior"}, placement={"kind": "deft", "ahead": False}),
    Subject(policy={"kind": "hrrn"}, predictor={"kind": "oracle", "error": [-0.7, 2.0]}, placement={"kind": "deft"}),
]
VARIANTS += [
    Subject(policy={"kind": "planned", "planner": name}, predictor={"kind": "oracle", "error": [-0.5, 1.0]})
    for name in ("cpop", "dls", "peft", "etf", "tds")
]
VARIANTS += [
    Subject(policy=policy, predictor={"kind": "oracle", "error": [-0.5, 1.0]}, placement=placement, copies=copies)
    for policy, placement in [
        ({"kind": "rank_up"}, {"kind": "deft"}),
        ({"kind": "srpt"}, {"kind": "deft", "ahead": False}),
        ({"kind": "rank_up"}, {"kind": "deft", "ahead": False, "wait": 0.01}),
        ({"kind": "planned", "planner": "tds"}, {"kind": "first_fit"}),
        ({"kind": "planned", "planner": "dfrn"}, {"kind": "first_fit"}),
        ({"kind": "planned", "planner": "tdca"}, {"kind": "first_fit"}),
        ({"kind": "planned", "planner": "deft_insertion"}, {"kind": "first_fit"}),
        ({"kind": "planned", "planner": "ga", "plans": 12}, {"kind": "first_fit"}),
        ({"kind": "played", "plays": 8, "order": "rank_up"}, {"kind": "first_fit"}),
    ]
    for copies in (CopyRules(max=4), CopyRules(max=2, others="end"))
]
RESERVING = [
    Subject(policy={"kind": entry.name}, predictor={"kind": "three_sigma"}, reserve_after=2_000)
    for entry in policies
    if not issubclass(entry.cls, KeepsNodes)
]
SUBJECTS = subjects() + VARIANTS + RESERVING
BY_NAME = {f"{number:02}-{subject}": subject for number, subject in enumerate(SUBJECTS)}


@pytest.mark.parametrize("check", POLICY_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", BY_NAME)
def test_promise(name: str, check: PolicyCheck) -> None:
    # One scenario per subject here (each with and without disorder), so that all profiles are met by every policy.
    number = list(BY_NAME).index(name)
    check(BY_NAME[name], (number % 4 + 4 * (number % 3),))


# All of them with --nightly; else those whose files changed and a few of the others (conftest.py).
@pytest.mark.slow
@pytest.mark.parametrize("check", POLICY_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", BY_NAME)
def test_promise_in_more_scenarios(name: str, check: PolicyCheck) -> None:
    number = list(BY_NAME).index(name)
    check(BY_NAME[name], tuple(range(100 * number, 100 * number + 4)))


@pytest.mark.parametrize("seed", range(36))
@pytest.mark.drawn(of=4)
def test_skipping_idle_heartbeats_changes_nothing(seed: int) -> None:
    check_skipping(SUBJECTS[seed % len(SUBJECTS)], (1000 + seed,))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 1000, 100))
@pytest.mark.drawn(of=8)
def test_skipping_idle_heartbeats_changes_nothing_in_many_scenarios(first: int) -> None:
    for seed in range(first, first + examples(100)):
        check_skipping(SUBJECTS[(7 * seed) % len(SUBJECTS)], (2000 + seed,))


@pytest.mark.parametrize("seed", [71030, 71768, 80326])
def test_scenarios_that_once_differed(seed: int) -> None:
    # 71030, 71768: a node that an end wakes is due in the same millisecond as the node where the task ended.
    # 80326: jobs entered their queue when an offer was made in vain, not when they were ready for it.
    check_skipping(VARIANTS[0], (seed,))


@pytest.mark.parametrize("name", profiles.names)
@pytest.mark.drawn(of=2)
def test_a_profile_keeps_all_promises(name: str) -> None:
    check_profile(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", profiles.names)
@pytest.mark.drawn(of=4)
def test_a_profile_keeps_all_promises_in_more_scenarios(name: str) -> None:
    check_profile(name, tuple(range(100, 100 + examples(12))))


REGISTERED = [(registry, entry.name) for registry in (policies, predictors, placers) for entry in registry]


@pytest.mark.parametrize(("registry", "name"), REGISTERED, ids=lambda part: part if isinstance(part, str) else "")
def test_registration_is_complete(registry: Registry, name: str) -> None:
    check_registered(registry, name)


@pytest.mark.parametrize("name", [entry.name for entry in FORMATS])
def test_trace_format_is_documented_and_refuses_what_it_cannot_read(name: str) -> None:
    check_format(name)


PROGRAM = """
from rm_emulator.testing import case_for, run_case, subjects
for number, subject in list(enumerate(subjects()))[3::15]:
    for disorder in (False, True):
        print(run_case(subject, case_for(subject, number, disorder=disorder)).log.sha256)
"""


@pytest.mark.slow
@pytest.mark.drawn(of=8)
def test_logs_are_the_same_in_another_process_with_other_hashes() -> None:
    said = [_hashes(seed) for seed in ("0", "1", "random")]
    assert said[0] == said[1] == said[2]
    here = [
        run_case(subject, case_for(subject, number, disorder=disorder)).log.sha256
        for number, subject in list(enumerate(subjects()))[3::15]
        for disorder in (False, True)
    ]
    assert said[0] == here


def _hashes(hash_seed: str) -> list[str]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


def _is_ours(cls: type) -> bool:
    return cls.__module__.startswith("rm_emulator.")


def test_scenarios_cover_what_the_engine_can_do() -> None:
    made: list[Case] = [case(seed) for seed in range(40)]
    configs = [c.config for c in made]
    assert {c.profile for c in configs} == {each.name for each in profiles if _is_ours(each.cls)}
    assert any(c.executors for c in configs)
    assert any(c.containers_per_heartbeat for c in configs)
    assert any(len(c.resources) == 3 for c in configs)
    assert any(len({n.speed for n in c.nodes}) > 1 for c in configs)
    assert any(len(entry.job.stages) > 2 for c in made for entry in c.workload.jobs)


def test_subjects_hold_every_registration() -> None:
    kinds = {part["kind"] for s in SUBJECTS for part in (s.policy, s.predictor, s.placement) if part}
    assert kinds >= {name for _, name in REGISTERED}


@pytest.mark.parametrize("predictor", ["oracle", "three_sigma"])
@pytest.mark.parametrize("policy", sorted(BLIND))
@pytest.mark.drawn(of=8)
def test_no_estimate_changes_what_a_blind_policy_decides(policy: str, predictor: str) -> None:
    def placed(subject: Subject, seed: int) -> list[Decision]:
        history = run_case(subject, case_for(subject, seed)).audit.history
        return [decision for _, decisions in history for decision in decisions if isinstance(decision, Place)]

    alone = Subject(policy={"kind": policy})
    told = Subject(policy={"kind": policy}, predictor={"kind": predictor})
    for seed in range(5):
        assert placed(told, seed) == placed(alone, seed)


def test_a_subject_shows_its_parts() -> None:
    shown = str(Subject(policy={"kind": "gs", "queues": 3}, predictor={"kind": "slearn"}))
    assert shown == "gs,queues=3+slearn"
