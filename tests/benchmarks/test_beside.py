"""How the brain's answers beside the forecaster are held against its answers without."""

from __future__ import annotations

import math
import os
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


def groups_of(*processes: int) -> list[str]:
    """Group and weight by process, without those that have no group of their session.

    That file is empty where a process began before any session did (a container's first), and absent on a kernel
    without such groups (CONFIG_SCHED_AUTOGROUP).
    """
    files = [Path(f"/proc/{process}/autogroup") for process in processes]
    return [group for file in files if file.exists() and (group := file.read_text())]


def test_the_forecasters_group_and_its_children_have_the_weight_of_its_request() -> None:
    command, ours = ["sh", "-c", "sleep 60 & echo $!; read line; kill $!"], os.getpriority(os.PRIO_PROCESS, 0)
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        family = process.pid, int(process.stdout.readline())
        before = groups_of(*family)
        _weigh(process.pid, own_group=True)
        after, own = groups_of(*family), os.getpriority(os.PRIO_PROCESS, process.pid)
        process.communicate("\n")
    assert own == min(ours + _NICE, 19)
    names = {each.split()[0] for each in before}
    assert before == [f"{name} nice 0\n" for name in names] * 2
    assert after == [f"{name} nice 7\n" for name in names] * 2
    assert not names & {each.split()[0] for each in groups_of(os.getpid())}


def test_the_weight_is_that_of_the_manifests() -> None:
    """A step of nice is a factor of 1.25."""
    cpu = {}
    for name, file in (("brain", "base/brain.yaml"), ("forecaster", "components/forecaster/forecaster.yaml")):
        (pod,) = (each for each in yaml.safe_load_all((MANIFESTS / file).read_text()) if each["kind"] == "Deployment")
        container = pod["spec"]["template"]["spec"]["containers"][0]
        assert container["name"] == name
        cpu[name] = int(container["resources"]["requests"]["cpu"].removesuffix("m"))
    assert round(math.log(cpu["brain"] / cpu["forecaster"], 1.25)) == _NICE
