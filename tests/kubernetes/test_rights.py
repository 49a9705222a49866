"""The table of the tenants' page is the table that is tried (test_rights_controlplane.py)."""

from __future__ import annotations

from tests.kubernetes.rights import table
from tests.pages import ROOT


def test_the_page_on_tenants_has_the_rows_that_are_tried() -> None:
    assert table() in (ROOT / "docs" / "platform" / "queues-and-tenants.md").read_text()
