"""Fresh runs of the real ResourceManager (Hadoop 3.3.5) under SLS, by Maven and Java, in real time.

The jars come through the user's own Maven settings, once; their class path is kept in the user's cache. A run
hears and speaks on the loopback only: where the system allows, in a network of its own (`unshare`).
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

import msgspec

from rm_emulator.files import write_file
from rm_emulator.hadoop.folder import JOBS, SLS, Folder, nodes_file, read_folder
from rm_emulator.hadoop.settings import MAPREDUCE
from rm_emulator.issues import InvalidInput

VERSION: Final = "3.3.5"
POM: Final = Path(__file__).parent / "pom.xml"
#: Time allowed to a run beyond a multiple of the time of its tasks, s.
_PATIENCE_S: Final = 1800.0
_OPENED: Final = ("lang", "util", "lang.reflect", "util.concurrent", "net", "io", "math", "text")
#: Otherwise tokens look addresses up, of nodes that are not there; read from core-site.xml too, once for the program.
_NO_LOOK_UP: Final = {"hadoop.security.token.service.use_ip": "false"}
_ADDRESSES: Final = ("", "scheduler.", "resource-tracker.", "admin.", "webapp.")
_LOG4J: Final = """log4j.rootLogger=WARN,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%p %c{1}: %m%n
"""


class Tools(msgspec.Struct, frozen=True):
    """The programs; `java_version`: the feature release of Java, such as 17."""

    java: str
    maven: str
    java_version: int


def find_tools() -> Tools:
    """Java and Maven on the PATH. Raises InvalidInput with the name of a missing program."""
    java, maven = shutil.which("java"), shutil.which("mvn")
    missing = [name for name, path in (("java (a JDK or JRE, 8 to 17)", java), ("mvn (Maven 3)", maven)) if not path]
    if not java or not maven:
        message = f"--hadoop needs {' and '.join(missing)} on the PATH; the stored runs can be compared without"
        raise InvalidInput(message)
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    match = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    if match is None:
        raise InvalidInput(f"{java} -version says no version: {(said.stderr or said.stdout).strip()[:200]}")
    return Tools(java, maven, int(match[1]))


def cache_folder() -> Path:
    """Where the class path is kept: outside the tree, by release."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "rm-emulator" / "hadoop" / VERSION


def class_path(tools: Tools, cache: Path | None = None) -> str:
    """The jars of Hadoop and SLS, by Maven the first time (about 110 MB). Raises InvalidInput with Maven's words."""
    folder = cache or cache_folder()
    digest = hashlib.sha256(POM.read_bytes()).hexdigest()[:16]
    cached = folder / f"classpath-{digest}.txt"
    if cached.is_file():
        text = cached.read_text().strip()
        if text and all(Path(jar).is_file() for jar in text.split(os.pathsep)):
            return text
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        pom, listed = Path(scratch) / "pom.xml", Path(scratch) / "classpath.txt"
        pom.write_bytes(POM.read_bytes())
        command = [tools.maven, "-q", "-B", "-f", str(pom), "dependency:build-classpath", f"-Dmdep.outputFile={listed}"]
        done = subprocess.run(  # noqa: S603 (a program that the user has installed)
            command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
        if done.returncode or not listed.is_file():
            words = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()][:5]
            raise InvalidInput("Maven could not get Hadoop's jars:\n" + "\n".join(words))
        write_file(cached, listed.read_bytes())
    return cached.read_text().strip()


def run_real(
    folder: Path, count: int, *, progress: Callable[[float], None] = lambda _: None, cache: Path | None = None
) -> list[Path]:
    """`count` fresh runs of an SLS folder, stored as results/run-K.csv in the folder; returns the files.

    `progress` hears the probable fraction of a run passed so far. Raises InvalidInput when a program is missing
    or Hadoop fails, TraceError for a folder with mistakes.
    """
    tools = find_tools()
    read = read_folder(folder)
    if not read.rm.sls:
        raise InvalidInput(f"{folder}: a real run needs conf/{SLS}")
    jars = class_path(tools, cache)
    results = folder / "results"
    results.mkdir(exist_ok=True)
    expected_s = _expected_s(read)
    made = []
    for _ in range(count):
        with tempfile.TemporaryDirectory(prefix="rm-emulator-sls-") as scratch:
            work = Path(scratch)
            _prepare(folder, work)
            _run(_command(tools, jars), work, expected_s, progress)
            made.append(_store(work, results))
    return made


def _expected_s(folder: Folder) -> float:
    """About how long the jobs take: as long as the last and longest, and as the cluster needs for all of them."""
    tasks = [task for job in folder.run.jobs for task in job.tasks]
    last = max(job.start_ms for job in folder.run.jobs) + max(task.duration_ms for task in tasks)
    work = sum(task.duration_ms * (task.vcores or folder.rm.container[1]) for task in tasks)
    return max(last, work / max(1, folder.total[1])) / 1000


def _prepare(folder: Path, work: Path) -> None:
    """A copy of the configuration with free ports of the loopback, so that runs do not meet each other."""
    conf = folder / "conf" if (folder / "conf").is_dir() else folder
    (work / "conf").mkdir()
    (work / "out" / "metrics").mkdir(parents=True)
    for file in conf.glob("*.xml"):
        shutil.copyfile(file, work / "conf" / file.name)
    _add(work / "conf" / SLS, _overrides())
    _add(work / "conf" / "core-site.xml", _NO_LOOK_UP)
    log = work / "conf" / "log4j.properties"
    if not log.exists():
        log.write_text(_LOG4J)
    shutil.copyfile(folder / JOBS, work / JOBS)
    nodes = nodes_file(folder)
    if nodes is not None:
        shutil.copyfile(nodes, work / nodes.name)


def _add(file: Path, properties: Mapping[str, str]) -> None:
    """Properties at the end of a file, where properties win; a missing file is made."""
    text = file.read_text("utf-8-sig") if file.exists() else "<configuration></configuration>\n"
    before, end, after = text.rpartition("</configuration>")
    lines = [
        f"<property><name>{escape(n)}</name><value>{escape(v)}</value></property>\n" for n, v in properties.items()
    ]
    file.write_text(f"{before}{''.join(lines)}{end}{after}", "utf-8")


def _overrides() -> dict[str, str]:
    """Addresses on the loopback, and settings without which SLS does not begin."""
    settings = {f"yarn.resourcemanager.{part}address": "127.0.0.1:0" for part in _ADDRESSES}
    return (
        settings
        | _NO_LOOK_UP
        | {
            "yarn.resourcemanager.hostname": "127.0.0.1",
            "yarn.sls.am.type.mapreduce": MAPREDUCE,
            "yarn.sls.metrics.switch": "true",
            "yarn.sls.metrics.web.address.port": "0",
        }
    )


def _command(tools: Tools, jars: str) -> list[str]:
    opened = [f"--add-opens=java.base/java.{part}=ALL-UNNAMED" for part in _OPENED]
    return [
        tools.java,
        "-Xmx2g",
        *(opened if tools.java_version >= 9 else []),
        "-Djava.net.preferIPv4Stack=true",
        "-cp",
        os.pathsep.join(["conf", jars]),
        "org.apache.hadoop.yarn.sls.SLSRunner",
        *("-tracetype", "SLS", "-tracelocation", JOBS, "-output", "out", "-printsimulation"),
    ]


def _own_network() -> list[str]:
    """The words before a command for a network with a loopback only; [] where the system refuses.

    SLS serves a page of metrics on all addresses, and has no setting against the page.
    """
    words = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return []
    tried = subprocess.run([*words, "true"], capture_output=True, check=False)  # noqa: S603
    return words if tried.returncode == 0 else []


def _run(command: Sequence[str], work: Path, expected_s: float, progress: Callable[[float], None]) -> None:
    nodes = ["-nodes", "nodes.json"] if (work / "nodes.json").exists() else []
    with (work / "log.txt").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603
            [*_own_network(), *command, *nodes],
            cwd=work,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that all of it can be ended at once
        )
        try:
            code = _wait(process, expected_s, progress)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    if code or not (work / "out" / "jobruntime.csv").is_file():
        lines = (work / "log.txt").read_text("utf-8", "replace").splitlines()
        telling = [line for line in lines if re.search(r"Exception|ERROR|FATAL", line)][:5] or lines[-5:]
        raise InvalidInput("Hadoop's run failed:\n" + "\n".join(telling))


def _wait(process: subprocess.Popen[bytes], expected_s: float, progress: Callable[[float], None]) -> int:
    ticks, limit = 0, expected_s * 20 + _PATIENCE_S
    pause = threading.Event()
    while process.poll() is None:
        pause.wait(1.0)
        ticks += 1
        progress(min(0.99, ticks / (expected_s + 15)))
        if ticks > limit:
            raise InvalidInput(f"Hadoop's run has not ended after {limit:.0f} s")
    progress(1.0)
    return process.returncode


def _store(work: Path, results: Path) -> Path:
    """jobruntime.csv and the allocated resources as the next run-K, each at once or not at all."""
    numbers = [int(match[1]) for p in results.glob("run-*.csv") if (match := re.fullmatch(r"run-(\d+)\.csv", p.name))]
    number = max(numbers, default=0) + 1
    allocated = _allocated(work / "out" / "metrics")
    if allocated is not None:
        write_file(results / f"run-{number}-allocated.csv", allocated)
    target = results / f"run-{number}.csv"
    write_file(target, (work / "out" / "jobruntime.csv").read_bytes())
    return target


def _allocated(metrics: Path) -> bytes | None:
    """second,memory_mb,vcores from the two files of the metrics; None without the files."""
    columns = []
    for name in ("memory", "vcores"):
        file = metrics / f"variable.cluster.allocated.{name}.csv"
        if not file.is_file():
            return None
        with file.open(newline="") as stream:
            columns.append({int(row["t"]): int(float(row["value"])) for row in csv.DictReader(stream)})
    memory, vcores = columns
    if not memory:
        return None
    text, first = io.StringIO(), min(memory)
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["second", "memory_mb", "vcores"])
    rows.writerows([second - first, memory[second], vcores.get(second, 0)] for second in sorted(memory))
    return text.getvalue().encode()
