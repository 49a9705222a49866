"""Which subjects a commit is held to in more scenarios."""

from __future__ import annotations

from pathlib import Path

from rm_emulator.testing import Subject
from tests.commit import ROOT, Commit
from tests.contract.chosen import concerns, files, held
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
    concerned = [subject for subject in BY_NAME.values() if concerns(commit, subject)]
    assert concerned
    assert all("hdrf" in str(subject) for subject in concerned)


def test_a_commit_that_changes_what_all_policies_are_made_from_concerns_all_subjects() -> None:
    commit = Commit("0" * 40, frozenset({ROOT / "schedulers" / "core" / "policy.py"}))
    assert all(concerns(commit, subject) for subject in BY_NAME.values())


def test_a_commit_is_held_to_all_that_it_concerns_where_these_are_few() -> None:
    commit = Commit("0" * 40, frozenset({ROOT / "schedulers" / "policies" / "hdrf.py"}))
    assert {name for name, subject in BY_NAME.items() if concerns(commit, subject)} <= held(commit, BY_NAME)


def test_a_commit_that_concerns_all_is_held_to_about_a_sixteenth_of_them() -> None:
    for number in range(20):
        commit = Commit(f"{number:040x}", frozenset({ROOT / "schedulers" / "core" / "policy.py"}))
        assert 0.01 < len(held(commit, BY_NAME)) / len(BY_NAME) < 0.15


def test_each_commit_is_held_to_about_a_thirty_second_of_what_it_does_not_concern() -> None:
    drawn = [len(held(Commit(f"{number:040x}", frozenset[Path]()), BY_NAME)) for number in range(20)]
    assert 0.02 < sum(drawn) / len(drawn) / len(BY_NAME) < 0.045


def test_every_subject_is_drawn_by_some_commit() -> None:
    commits = [Commit(f"{number:040x}", frozenset[Path]()) for number in range(400)]
    assert set().union(*(held(commit, BY_NAME) for commit in commits)) == set(BY_NAME)
