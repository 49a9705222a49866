"""Which subjects are held to their promises: all by night, else those that a commit concerns or draws.

A commit draws an eighth of all for one scenario, of which the fast lane holds none, and fewer for more scenarios.
"""

from __future__ import annotations

from typing import Final, TypeGuard

import pytest

from tests.commit import Commit
from tests.contract.chosen import held

_ONE: Final = "test_promise"
_MORE: Final = "test_promise_in_more_scenarios"


# Before pytest's own, which leaves out what `-m` does not name.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    matrix = [item for item in items if _names_a_subject(item)]
    if not matrix or config.getoption("--nightly"):
        return
    commit = Commit.here()
    tried = held(commit, matrix[0].module.BY_NAME)
    gone = set[pytest.Item]()
    for item in matrix:
        name = item.callspec.params["name"]
        if name in tried:
            continue
        if item.originalname == _ONE and commit.draws(f"{name} once", of=8):
            item.add_marker(pytest.mark.slow)
        else:
            gone.add(item)
    items[:] = [item for item in items if item not in gone]
    config.hook.pytest_deselected(items=list(gone))


def _names_a_subject(item: pytest.Item) -> TypeGuard[pytest.Function]:
    """Whether the test holds a subject of the matrix to a promise; other folders have tests of the same name."""
    in_matrix = isinstance(item, pytest.Function) and hasattr(item.module, "BY_NAME")
    return in_matrix and item.originalname in {_ONE, _MORE}
