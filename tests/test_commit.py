"""Which cases of a test a commit draws."""

from __future__ import annotations

from tests.commit import Commit

COMMITS = [Commit(f"{number:040x}", None) for number in range(60)]
CASES = [f"tests/a/test_x.py::test_y[{number}]" for number in range(10)]


def test_each_commit_draws_one_case_of_so_many_rounded_up() -> None:
    assert {len(commit.cases("tests/a/test_x.py::test_y", CASES, of=4)) for commit in COMMITS} == {3}
    assert {len(commit.cases("tests/a/test_x.py::test_y", CASES[:2], of=4)) for commit in COMMITS} == {1}


def test_every_case_is_drawn_by_some_commit() -> None:
    assert set().union(*(commit.cases("tests/a/test_x.py::test_y", CASES, of=4) for commit in COMMITS)) == set(CASES)


def test_a_test_without_cases_is_drawn_by_one_commit_of_so_many() -> None:
    test = "tests/a/test_x.py::test_z"
    assert 5 < sum(bool(commit.cases(test, [test], of=4)) for commit in COMMITS) < 25


def test_tests_without_cases_of_one_file_are_drawn_together() -> None:
    tests = ["tests/a/test_x.py::test_y", "tests/a/test_x.py::test_z"]
    drawn = [[bool(commit.cases(test, [test], of=4)) for test in tests] for commit in COMMITS]
    assert all(one == other for one, other in drawn)
