"""A report in a real Chromium, the system's own."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import pytest

import rm_emulator
from rm_emulator.api import API_VERSION
from rm_emulator.results import report, summary


# Not longer than a module: while it is open an event loop runs, in which asyncio.run of other tests fails.
@pytest.fixture(scope="module")
def browser():
    """Chromium without a window. Where there is none the tests are skipped, on CI they fail."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        message = "no Chromium on the PATH (on Debian: apt install chromium)"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(message)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()


@pytest.fixture(scope="session")
def report_path(tmp_path_factory) -> Path:
    """The report of a fabricated run of three labels and two seeds."""
    path = Path(__file__).parents[1] / "results" / "fabricate.py"
    spec = importlib.util.spec_from_file_location("fabricate_for_browser", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    out_dir = tmp_path_factory.mktemp("report")
    summary.build(out_dir, module.run_directory(out_dir, logs=True))
    return report.write(out_dir)


@pytest.fixture(scope="session")
def swept_report(tmp_path_factory) -> Path:
    """The report of a sweep: nine points of three labels."""
    stage = {"name": "s", "tasks": 4, "demand": {"cpu": 1}, "duration": "2s"}
    spec = {
        "cluster": {"profile": "events", "nodes": [{"count": 1, "capacity": {"cpu": 4}}]},
        "workload": {"kind": "jobs", "jobs": [{"name": "a", "stages": [stage]}, {"name": "b", "stages": [stage]}]},
        "policies": [{"kind": "fifo"}, {"kind": "fair"}, {"kind": "las"}],
        "sweep": {"cluster.nodes[0].count": [1, 2, 3], "workload.jobs[0].stages[0].tasks": [4, 8, 16]},
    }
    out = tmp_path_factory.mktemp("sweep") / "out"
    rm_emulator.run(
        {"apiVersion": API_VERSION, "kind": "Scenario", "metadata": {"name": "swept"}, "spec": spec}, out=out
    )
    return report.write(out)
