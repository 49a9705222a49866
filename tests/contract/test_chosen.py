"""Which subjects a commit is held to in more scenarios."""

from __future__ import annotations

from pathlib import Path

from rm_emulator.testing import Subject
from tests.contract.chosen import ROOT, Commit, files
from tests.contract.test_contracts import BY_NAME

CAPPED = Subject(policy={"kind": "bounded", "policy": {"kind": "hdrf"}}, placement={"kind": "best_fit"})


def test_a_subjects_files_are_those_of_its_parts_and_of_what_they_are_made_from() -> None:
    found = {str(file.relative_to(ROOT)) for file in files(CAPPED) if file.is_relative_to(ROOT)}
    assert found >= {
        "schedulers/policies/bounded.py",
        "schedulers/policies/hdrf.py",
        "schedulers/placers/best_fit.py",
        "schedulers/core/policy.py",
    }


def test_a_commit_concerns_the_subjects_whose_files_it_changed() -> None:
    commit = Commit("0" * 40, frozenset({ROOT / "schedulers" / "policies" / "hdrf.py"}))
    concerned = [subject for subject in BY_NAME.values() if commit.concerns(subject)]
    assert concerned
    assert all("hdrf" in str(subject) for subject in concerned)


def test_a_commit_that_changes_what_all_policies_are_made_from_concerns_all_subjects() -> None:
    commit = Commit("0" * 40, frozenset({ROOT / "schedulers" / "core" / "policy.py"}))
    assert all(map(commit.concerns, BY_NAME.values()))


def test_each_commit_draws_about_an_eighth_of_all_subjects() -> None:
    for number in range(20):
        drawn = sum(Commit(f"{number:040x}", frozenset[Path]()).draws(name) for name in BY_NAME)
        assert 0.05 < drawn / len(BY_NAME) < 0.2


def test_every_subject_is_drawn_by_some_commit() -> None:
    commits = [Commit(f"{number:040x}", frozenset[Path]()) for number in range(100)]
    assert all(any(commit.draws(name) for commit in commits) for name in BY_NAME)
