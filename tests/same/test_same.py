"""No decision changes unnoticed: hashes of event logs and results, kept in `hashes/`, one file per scenario.

pytestmark = pytest.mark.usefixtures("no_report")

A log's hash is over its lines after the header; a summary's over all but what the clock and the machine decide.
`pytest tests/same --every-seed` runs all seeds of each scenario instead of the first one. Of scenarios that a page of
docs/ runs whole (`tests/packaged.py`) the results of that run are looked at, which has all seeds.
`pytest tests/same --update` writes what it finds (add --every-seed, so that the other seeds' hashes do not go stale);
that belongs into a commit which names the defect that it fixes.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

import rm_emulator
from rm_emulator.results import replay
from rm_emulator.scenario import examples
from tests.packaged import WHOLE, Packaged
from tests.same.scenarios import SCENARIOS

HASHES: Final = Path(__file__).parent / "hashes"
CLUSTER: Final = Path(__file__).parents[1] / "data" / "cluster"
SHARED: Final = Path(__file__).parents[3] / "shared" / "cases"
CASES: Final = ("fairness", "yarn", "dag", "open")
#: What the clock and the machine decide.
_MEASURED: Final = ("wall_s", "decision_us", "tasks_per_s", "peak_rss_mb")


PACKAGED: Final = [name for name, _ in examples.summaries()]
#: Looked at by night: they take a minute or more, and smaller scenarios lead through the same policies.
BY_NIGHT: Final = ("demo", "slearn-vs-history")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.nightly] * (name in BY_NIGHT))
        for name in (*SCENARIOS, *PACKAGED)
        if name not in WHOLE.values()
    ],
)
@pytest.mark.drawn(of=8)
def test_a_scenario_is_decided_and_summed_up_as_before(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    every = request.config.getoption("--every-seed")
    rm_emulator.run(SCENARIOS.get(name, name), out=tmp_path / "out", seeds=None if every else [1], jobs=1)
    _compare(name, _hashes(tmp_path / "out", every=every), request)


@pytest.mark.slow
@pytest.mark.parametrize("command", WHOLE)
@pytest.mark.drawn(of=8)
def test_a_scenario_that_a_page_runs_is_decided_and_summed_up_as_before(
    command: str, packaged: Packaged, request: pytest.FixtureRequest
) -> None:
    _compare(WHOLE[command], _hashes(packaged.results(command), every=True), request)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@pytest.mark.drawn(of=4)
def test_known_answers_come_out_as_before(name: str, request: pytest.FixtureRequest) -> None:
    if not (SHARED / f"{name}.yaml").exists():
        pytest.skip("the known answers are not here: ../shared/cases")
    command = [sys.executable, "-m", "rm_emulator", "case", str(SHARED / f"{name}.yaml")]
    environment = {**os.environ, "NO_COLOR": "1"}
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert ran.returncode == 0, ran.stdout
    _compare(f"case-{name}", {"answers": _sha256(ran.stdout.encode())}, request)


@pytest.mark.parametrize("log", sorted(CLUSTER.glob("*.jsonl.gz")), ids=lambda log: log.name.partition(".")[0])
def test_what_a_real_control_plane_told_is_decided_as_it_was_there(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Recorded by the brain under tests/kubernetes/test_{queues,dags}_controlplane.py at the time of b950c1e, those of
    jockey, tetrisched and alsched under test_deadlines_controlplane.py when they came.

    Changed since: while all nodes are cordoned, jobs are held for `no_node_matches`; they were said to be `too_large`.
    """
    assert replay.main(log) == 0
    assert ", identical as far as it goes (" in capsys.readouterr().out  # no cell.json beside it


def _hashes(out: Path, *, every: bool) -> dict[str, str]:
    found = {}
    for log in sorted([*out.glob("runs/*/*/events*.jsonl*"), *out.glob("points/*/runs/*/*/events*.jsonl*")]):
        parts = [*log.parent.relative_to(out).parts, log.name.partition(".")[0].removeprefix("events").lstrip("-")]
        place = " ".join(part for part in parts if part not in ("runs", "points", ""))
        opened = gzip.open if log.suffix == ".gz" else open
        with opened(log, "rb") as lines:
            assert b'"note":"Header"' in next(lines)
            found[f"log {place}"] = _sha256(*lines)
    summary = json.loads((out / "summary.json").read_text("utf-8"))
    for run in summary["runs"]:
        for figure in (*_MEASURED, "log_sha256"):
            del run[figure]
    found["summary of every seed" if every else "summary of seed 1"] = _sha256(json.dumps(summary).encode())
    return found


def _sha256(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return base64.urlsafe_b64encode(digest.digest()[:18]).decode()  # 144 bits tell any two logs apart


def _compare(name: str, found: dict[str, str], request: pytest.FixtureRequest) -> None:
    path = HASHES / f"{name}.json"
    known: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    if request.config.getoption("--update"):
        path.write_text(json.dumps(dict(sorted({**known, **found}.items())), indent=1) + "\n", "utf-8")
        return
    assert known, f"{path} is not there: make it with --update"
    assert {key: known.get(key) for key in found} == found
