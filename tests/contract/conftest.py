"""Which subjects are held to their promises in more scenarios: all by night, else those that a commit concerns."""

from __future__ import annotations

import pytest

from rm_emulator.testing import Subject
from tests.contract.chosen import Commit


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    commit = None if config.getoption("--nightly") else Commit.here()
    if commit is None:
        return
    left_out = [item for item in items if not _runs(item, commit)]
    items[:] = [item for item in items if _runs(item, commit)]
    config.hook.pytest_deselected(items=left_out)


def _runs(item: pytest.Item, commit: Commit) -> bool:
    if not isinstance(item, pytest.Function) or item.originalname != "test_promise_in_more_scenarios":
        return True
    name: str = item.callspec.params["name"]
    subjects: dict[str, Subject] = item.module.BY_NAME
    return commit.concerns(subjects[name]) or commit.draws(name)
