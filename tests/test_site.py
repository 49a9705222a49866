"""The documentation site: everything that plugs in, every wait reason, metric and command has its place there."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from schedulers.core.policy import policies
from schedulers.core.reasons import Reason

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def generated() -> ModuleType:
    """`docs/generated.py`, which is no part of a package."""
    spec = importlib.util.spec_from_file_location("generated", ROOT / "docs" / "generated.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def reference(generated: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The generated pages."""
    folder = tmp_path_factory.mktemp("site") / "reference"
    generated.write(folder)
    return folder


def test_everything_that_plugs_in_has_a_page_with_its_source(generated: ModuleType, reference: Path) -> None:
    for kind, (registry, _, _) in generated.KINDS.items():
        for entry in registry:
            page = (reference / kind / f"{entry.name}.md").read_text(encoding="utf-8")
            assert f"**Source:** {entry.source}" in page


def test_every_setting_stands_on_the_page_of_its_policy(reference: Path) -> None:
    for entry in policies:
        page = (reference / "policies" / f"{entry.name}.md").read_text(encoding="utf-8")
        for parameter in entry.parameters():
            assert f"| `{parameter.name}` |" in page


def test_most_policies_have_a_picture_and_the_others_say_why(reference: Path) -> None:
    pages = {
        entry.name: (reference / "policies" / f"{entry.name}.md").read_text(encoding="utf-8") for entry in policies
    }
    without = {name for name, page in pages.items() if "<svg" not in page}
    assert all("No picture, since" in pages[name] for name in without)
    assert len(without) < len(pages) / 5


def test_the_picture_of_fifo_has_a_bar_for_each_of_the_21_tasks(generated: ModuleType) -> None:
    assert generated.picture_of("fifo").count("<rect ") == 21


def test_every_wait_reason_metric_and_command_has_its_row(reference: Path) -> None:
    reasons = (reference / "reasons.md").read_text(encoding="utf-8")
    assert all(f"| `{reason.value}` |" in reasons for reason in Reason)
    pytest.importorskip("prometheus_client", reason="pip install -e '.[k8s]'")
    from operators import metrics

    assert metrics.table() in (reference / "metrics.md").read_text(encoding="utf-8")
    commands = (reference / "commands.md").read_text(encoding="utf-8")
    assert {"## `rm-emulator run`", "## `rm-emulator traces describe`"} <= set(commands.splitlines())


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_its_search_knows_every_policy(tmp_path: Path) -> None:
    pytest.importorskip("sphinx", reason="pip install -e '.[docs]'")
    pytest.importorskip("furo", reason="pip install -e '.[docs]'")
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", str(ROOT / "docs"), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    index = (tmp_path / "searchindex.js").read_text(encoding="utf-8")
    assert all(re.search(rf'"reference/policies/{re.escape(entry.name)}"', index) for entry in policies)
