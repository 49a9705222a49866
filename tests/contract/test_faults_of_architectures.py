"""Schedulers that think, or see no cluster, keep their promises while nodes and tasks fail.

`python -m tests.contract.test_faults_of_architectures FIRST LAST` tries so many more scenarios.
"""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contract.faulty_architectures import check_architecture, faulty_architecture
from tests.examples import examples


@pytest.mark.slow
@given(st.integers(0, 10**6))
@settings(max_examples=examples(200), deadline=None)
def test_with_faults_every_task_ends_once_or_its_job_failed_and_the_logs_replay(seed: int) -> None:
    check_architecture(faulty_architecture(seed))


if __name__ == "__main__":
    for number in range(*map(int, sys.argv[1:])):
        check_architecture(faulty_architecture(number))
