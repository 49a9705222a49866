"""Every packaged example runs where `init` puts it, and every log that it leaves replays to the same decisions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rm_emulator
from rm_emulator.results import replay
from rm_emulator.results.replay import event_log
from rm_emulator.scenario import examples

#: Smaller than packaged, where the packaged size takes long.
SMALLER: dict[str, dict[str, Any]] = {
    "dag-packing": {"spec.workload.jobs": 2, "spec.expect": []},
    "demo": {"spec.workload.jobs": 80, "spec.expect": []},
    "lachesis": {"spec.workload.jobs": 4},
    "load-sweep": {"spec.workload.jobs": 20, "spec.expect": [], 'spec.sweep["workload.load"]': [0.9]},
    "slearn-vs-history": {"spec.workload.jobs": 80, "spec.expect": []},
    "sparrow": {"spec.workload.jobs": 20, "spec.expect": [], 'spec.sweep["workload.load"]': [0.9]},
    "tpch": {"spec.workload.jobs": 4, "spec.workload.sizes": [2], "spec.expect": []},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, _ in examples.summaries()])
@pytest.mark.drawn(of=16)
@pytest.mark.usefixtures("no_report")
def test_every_starter_runs_and_replays(name: str, tmp_path: Path) -> None:
    starter = examples.copy(name, tmp_path / "mine")[0]
    results = rm_emulator.run(starter, out=tmp_path / "out", seeds=[1], set=SMALLER.get(name, {}), jobs=1)
    labels = [run["label"] for run in results.summary["runs"]]
    assert labels
    for place in sorted(results.path.glob("points/*")) or [results.path]:
        for label in labels:
            assert replay.main(event_log(place, label, 1)) == 0
