"""Which subjects are held to their promises in more scenarios: all by night, else those that a commit concerns.

The fast lane holds no others to their promises in one scenario either.
"""

from __future__ import annotations

import pytest

from rm_emulator.testing import Subject
from tests.contract.chosen import Commit

_MORE = "test_promise_in_more_scenarios"


# Before pytest's own, which leaves out what `-m` does not name.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    commit = None if config.getoption("--nightly") else Commit.here()
    if commit is None:
        return
    left_out, held = [], dict[str, bool]()
    for item in items:
        if (found := _subject(item)) is None:
            continue
        name, subject = found
        if name not in held:
            held[name] = commit.draws(name) or commit.concerns(subject)
        if held[name]:
            continue
        if isinstance(item, pytest.Function) and item.originalname == "test_promise":
            item.add_marker(pytest.mark.slow)
        else:
            left_out.append(item)
    if left_out:
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]
        config.hook.pytest_deselected(items=left_out)


def _subject(item: pytest.Item) -> tuple[str, Subject] | None:
    """Name and subject of a promise of the matrix; None: the test is none."""
    if not isinstance(item, pytest.Function) or item.originalname not in {"test_promise", _MORE}:
        return None
    if (subjects := getattr(item.module, "BY_NAME", None)) is None:
        return None
    name: str = item.callspec.params["name"]
    return name, subjects[name]
