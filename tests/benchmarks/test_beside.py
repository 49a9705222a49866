"""How the brain's answers beside the forecaster are held against its answers without."""

from __future__ import annotations

import math
import subprocess
from pathlib import Path
from subprocess import PIPE

import numpy as np
import pytest
import yaml

from benchmarks.kubernetes.beside import _NICE, Took, _weigh, compared
from devcluster.installation import MANIFESTS


def took(factor: float, pairs: int = 40, calls: int = 50) -> Took:
    """Calls of a few ms, beside the forecaster so many times longer; CPU time and wait are each half of the time."""
    draw = np.random.default_rng(1)
    sides = {side: draw.lognormal(1, 0.3, (pairs, calls)) * (factor if side else 1.0) for side in (True, False)}
    return {side: [[(ms, ms / 2, ms / 2) for ms in turn] for turn in turns.tolist()] for side, turns in sides.items()}


@pytest.mark.parametrize("share", [0.5, 0.99])
@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_the_interval_holds_the_true_ratio_and_not_much_more(factor: float, share: float) -> None:
    beside, alone, low, high = compared(took(factor), 0, share)
    assert low < factor < high < low * 1.3
    assert low < beside / alone < high


def test_cpu_time_is_compared_likewise() -> None:
    both = took(1.2)
    times, cpu = compared(both, 0, 0.99), compared(both, 1, 0.99)
    assert cpu == pytest.approx((times[0] / 2, times[1] / 2, times[2], times[3]))


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="a kernel without groups by session")
def test_the_forecasters_group_and_its_children_have_the_weight_of_its_request() -> None:
    command = ["sh", "-c", "cat /proc/self/autogroup; sleep 60 & cat /proc/$!/autogroup; read line; kill $!"]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        before = process.stdout.readline(), process.stdout.readline()
        _weigh(process.pid, own_group=True)
        after = Path(f"/proc/{process.pid}/autogroup").read_text()
        process.communicate("\n")
    group = before[0].split()[0]
    assert before == (f"{group} nice 0\n", f"{group} nice 0\n")
    assert after == f"{group} nice 7\n"
    assert Path("/proc/self/autogroup").read_text().split()[0] != group


def test_the_weight_is_that_of_the_manifests() -> None:
    """A step of nice is a factor of 1.25."""
    cpu = {}
    for name, file in (("brain", "base/brain.yaml"), ("forecaster", "components/forecaster/forecaster.yaml")):
        (pod,) = (each for each in yaml.safe_load_all((MANIFESTS / file).read_text()) if each["kind"] == "Deployment")
        container = pod["spec"]["template"]["spec"]["containers"][0]
        assert container["name"] == name
        cpu[name] = int(container["resources"]["requests"]["cpu"].removesuffix("m"))
    assert round(math.log(cpu["brain"] / cpu["forecaster"], 1.25)) == _NICE
