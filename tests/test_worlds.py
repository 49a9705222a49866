"""docs/worlds.md is what `python -m tests.worlds` would write."""

from __future__ import annotations

from schedulers.core.policy import policies
from tests.worlds import NOTES, PAGE, page, rows


def test_the_page_is_that_of_this_tree() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


def test_all_that_brain_accepts_was_seen_on_a_real_control_plane_and_nothing_else() -> None:
    assert {row[0] for row in rows() if row[4].startswith("no")} == {row[0] for row in rows() if row[5] == "no"}


def test_notes_are_of_policies_that_exist() -> None:
    assert NOTES.keys() <= {entry.name for entry in policies}
