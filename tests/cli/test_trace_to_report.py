"""From a trace to a report in two commands: `init --from FILE`, `run`; large real files by their first jobs."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.workload import samples

pytestmark = pytest.mark.slow

DATA = Path(__file__).parents[2] / "../shared/data"
#: File, format, options of the format.
REAL = {
    "nasa": ("NASA-iPSC-1993-3.1-cln.swf.gz", "swf", ("limit=300",)),
    "alibaba-2017": ("alibaba-2017-batch_task.csv.gz", "alibaba2017", ("limit=60", "task_scale=0.05")),
    "alibaba-2018": ("alibaba-2018-dags-batch_task.csv.gz", "alibaba2018", ("limit=120",)),
    "openb": ("openb_pod_list_default.csv", "openb", ("limit=300",)),
    "tpch-spark": ("tpch-spark-profiles.json.gz", "decima", ("jobs=12",)),
    "tpch-spark-raw": ("decima-tpch-raw", "decima", ("jobs=12",)),
    "yarn-sls": ("yarn-sls/capacity-users", "hadoop", ()),
    "workflow": ("wfinstances/blast-chameleon-small-003.json.gz", "wfformat", ()),
    "workflows": ("wfinstances", "wfformat", ()),
}
#: Jobs of a generated trace: seconds of the arrival and of the run, tasks.
JOBS = [(17 * number, 20 + 7 * number % 90, 1 + number % 5) for number in range(40)]


def _clock(second: int) -> str:
    return f"{10 + second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"


def _sacct(folder: Path) -> Path:
    """What `sacct -P` prints: jobs, arrays, and a step of each, which has no partition."""
    rows = samples.SACCT.splitlines()
    for number, (submit, run, nodes) in enumerate(JOBS):
        job = f"{200 + number // 3}_{number % 3}" if number % 2 else str(300 + number)
        times = f"2024-03-01T{_clock(submit)}|2024-03-01T{_clock(submit + 5)}|2024-03-01T{_clock(submit + 5 + run)}"
        lasted = f"{_clock(run).replace('10', '00', 1)}|01:00:00|COMPLETED"
        held = f"cpu={2 * nodes},mem={4 * nodes}G,node={nodes}"
        rows.append(f"{job}|fit|ann|{'cpu' if number % 3 else 'gpu'}|{times}|{lasted}|{held}|{held}")
        rows.append(f"{job}.batch|batch|||{times}|{lasted.replace('01:00:00', '')}||{held}")
    return _written(folder / "sacct.txt", "\n".join(rows) + "\n")


def _yarn_apps(folder: Path) -> Path:
    """What the ResourceManager's REST interface lists."""
    apps = json.loads(samples.YARN_APPS)["apps"]["app"]
    for number, (submit, run, tasks) in enumerate(JOBS):
        start = 1476913457000 + submit * 1000
        more = {"startedTime": start, "launchTime": start + 900, "finishedTime": start + 900 + run * 1000}
        sums = {"vcoreSeconds": tasks * run, "memorySeconds": 2048 * tasks * run}
        name = {"id": f"application_1476912658570_{10 + number:04}", "queue": f"root.{'prod' if number % 2 else 'dev'}"}
        apps.append(apps[0] | name | more | sums)
    return _written(folder / "apps.json", json.dumps({"apps": {"app": apps}}))


def _google2019(folder: Path) -> Path:
    """Instance events as BigQuery exports them."""
    rows = ["time,type,collection_id,instance_index,collection_type,resource_request.cpus,resource_request.memory"]
    for number, (submit, run, tasks) in enumerate(JOBS):
        for task in range(tasks):
            at = (600 + submit) * 1_000_000
            for later, kind in ((0, 0), (1, 3), (1 + run + task, 6)):
                rows.append(f"{at + later * 1_000_000},{kind},{9000 + number},{task},0,0.02,0.01")
    return _written(folder / "instance_events.csv", "\n".join(rows) + "\n")


def _pods(folder: Path) -> Path:
    """What `kubectl get pods -A -o json` prints."""
    made = []
    for number, (submit, run, tasks) in enumerate(JOBS[:20]):
        for task in range(tasks):
            pod = samples.pod(f"j{number}-{task}", start=_clock(submit + 5), end=_clock(submit + 5 + run))
            pod["metadata"] |= {
                "creationTimestamp": f"2024-03-01T{_clock(submit)}Z",
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": f"j{number}", "uid": "1"}],
            }
            made.append(pod)
    return _written(folder / "pods.json", samples.pods(*made))


def _odd_csv(folder: Path) -> Path:
    """A spreadsheet's own columns: separated by `;`, decimal commas, local dates, units in cells, a name with a `;`."""
    rows = ["Auftrag;Wer;Eingang;Start;Ende;Kerne;Speicher;Bemerkung"]
    for number, (submit, run, cores) in enumerate(JOBS):
        times = (f"13.03.2024 {_clock(second)}" for second in (submit, submit + 5, submit + 5 + run))
        rows.append(f'J-{number};"Büro; {number % 3}";{";".join(times)};{cores},0;{512 * cores} MB;')
    return _written(folder / "Aufträge 2024.csv", "\ufeff" + "\r\n".join(rows) + "\r\n")


ODD = "map=job=Auftrag,user=Wer,submit=Eingang,durations=Ende-Start,cpu=Kerne,memory=Speicher"
#: Writer of the file, format, options.
MADE: dict[str, tuple[Callable[[Path], Path], str, tuple[str, ...]]] = {
    "slurm": (_sacct, "sacct", ()),
    "yarn-applications": (_yarn_apps, "yarn_apps", ()),
    "google-2019": (_google2019, "google2019", ()),
    "pods": (_pods, "pods", ()),
    "odd-csv": (_odd_csv, "csv", ("delimiter=;", "decimal=,", ODD)),
}


def _written(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8", newline="")
    return path


@pytest.mark.parametrize("kind", [*REAL, *MADE])
@pytest.mark.drawn(of=16)
def test_a_trace_becomes_a_report(kind: str, command: Command, tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    if kind in MADE:
        make, name, texts = MADE[kind]
        trace = make(tmp_path / "traces")
    else:
        file, name, texts = REAL[kind]
        trace = (DATA / file).resolve()
        if not trace.exists():
            pytest.skip(f"needs the trace at {trace}")
    options = [part for text in texts for part in ("--option", text)]
    # A table with columns of other names is not recognised.
    options += ["--format", name] if kind == "odd-csv" else []

    described = command("traces", "describe", trace, "--json", *options)
    assert described.code == 0, described.err
    description = json.loads(described.out)
    assert description["verdict"].startswith("Would sampling pay? ")
    assert (description["jobs"] > 0, description["notes"][0]) == (True, f"read as {name}")

    drafted = command("init", "--from", trace, tmp_path / "mine", *options)
    assert drafted.code == 0, drafted.err
    scenario = drafted.out.splitlines()[0]
    ran = command("run", scenario, "--out", tmp_path / "out", "--quiet", "--jobs", "1")
    assert (ran.code, ran.err) == (0, "")
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    labels = [run["label"] for run in summary["runs"]]
    assert len(set(labels)) == len(labels) == 3
    for run in summary["runs"]:
        assert (run["jobs"], run["tasks"], run["unfinished_jobs"]) == (description["jobs"], description["tasks"], 0)
        for figure in ("jct_s", "wait_s"):
            values = [0.0, *(run[figure][quantile] for quantile in ("p50", "p90", "p99"))]
            assert all(low <= high for low, high in pairwise(values))
    report = (tmp_path / "out/report.html").read_text()
    assert report.rstrip().endswith("</html>")
    assert all(label in report for label in labels)
