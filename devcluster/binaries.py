"""Where the programs of a control plane come from: given, cached, installed, or built with the machine's Go."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

#: The version that manifests are made for, an older one that they still work with, and a newer one.
MADE_FOR: Final = "1.36.3"
OLDER: Final = "1.35.4"
NEWER: Final = "1.37.2"
#: The version on which tests run, unless told otherwise.
VERSION: Final = os.environ.get("KUBERNETES_VERSION", MADE_FOR)
_ETCD: Final = "3.6.8"
_KWOK: Final = "0.8.0"
_HELM: Final = "4.3.1"
PROGRAMS: Final = ("etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager", "kubectl", "kwok")
#: What installs our chart; a control plane does without.
HELM: Final = "helm"
#: Tool modules, in which the versions above stand again.
MODULES: Final = Path(__file__).parents[1] / "tests" / "kubernetes" / "controlplane"


class NoBinaries(Exception):
    """A program is neither there nor can it be built; the message says what to install."""


def cache(version: str = VERSION) -> Path:
    """Where built programs are kept, by version, outside any checkout."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "rm-emulator" / "controlplane" / version


def find(name: str, version: str = VERSION) -> Path | None:
    """KUBEBUILDER_ASSETS (of the tests' version), the cache, or PATH if it is of that version; None: nowhere."""
    assets = os.environ.get("KUBEBUILDER_ASSETS") if version == VERSION else None
    for folder in ([Path(assets)] if assets else []) + [cache(version)]:
        if os.access(folder / name, os.X_OK):
            return folder / name
    installed = shutil.which(name)
    return Path(installed) if installed is not None and _is_of(installed, _version_of(name, version)) else None


def _version_of(name: str, version: str) -> str:
    return {"etcd": _ETCD, "kwok": _KWOK, HELM: _HELM}.get(name, version)


def _is_of(program: str, version: str) -> bool:
    """Whether an installed program is of the version that the manifests are tested with."""
    flag = {"kubectl": ["version", "--client"], HELM: ["version"]}.get(Path(program).name, ["--version"])
    try:
        done = subprocess.run([program, *flag], capture_output=True, text=True, timeout=20, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return False
    return re.search(rf"(?<![\d.]){re.escape(version)}(?![\d.])", done.stdout) is not None


def missing(version: str = VERSION, programs: Sequence[str] = PROGRAMS) -> list[str]:
    """Programs that `find` does not find."""
    return [name for name in programs if find(name, version) is None]


def can_build() -> bool:
    """Whether there is Go, and a checkout with the tool modules."""
    return shutil.which("go") is not None and MODULES.is_dir()


def need(version: str = VERSION, *, build: bool) -> dict[str, Path]:
    """All programs by name, built first if need be. Raises NoBinaries."""
    if build and missing(version):
        build_all(version)
    programs = {name: path for name in PROGRAMS if (path := find(name, version)) is not None}
    lacking = [name for name in PROGRAMS if name not in programs]
    if lacking:
        raise NoBinaries(
            f"no {', '.join(lacking)} of version {version}: run `make controlplane` in a checkout (needs Go 1.26, "
            "takes 10 minutes once), or set KUBEBUILDER_ASSETS to a folder that has them"
        )
    return programs


def build_all(version: str = VERSION, programs: Sequence[str] = PROGRAMS) -> None:
    """Build what is missing; a killed build leaves nothing half-made, and two do not get in each other's way."""
    if not missing(version, programs):
        return  # needs no Go
    if not can_build():
        raise NoBinaries("the control plane is built from a checkout with Go 1.26: install it from https://go.dev/dl/")
    cache(version).mkdir(parents=True, exist_ok=True)
    with _lock(cache(version) / ".lock"):
        todo = missing(version, programs)
        for number, name in enumerate(todo, start=1):
            sys.stderr.write(f"[{number}/{len(todo)}] building {name} {_version_of(name, version)}\n")
            _build(name, version)


def _build(name: str, version: str) -> None:
    module, package = _package(name, version)
    target, made = cache(version) / name, cache(version) / f".{name}.new"
    command = ["go", "build", "-trimpath", "-ldflags", _stamp(name, version), "-o", str(made), package]
    env = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false", "GOTOOLCHAIN": "local"}
    done = subprocess.run(command, cwd=MODULES / module, env=env, text=True, stderr=subprocess.PIPE, check=False)  # noqa: S603
    if done.returncode:
        made.unlink(missing_ok=True)
        tail = "\n".join(re.sub(r"\s+$", "", line) for line in done.stderr.splitlines()[-15:])
        raise NoBinaries(f"{name} cannot be built (`go build {package}` in {MODULES / module}):\n{tail}")
    made.rename(target)


def _package(name: str, version: str) -> tuple[str, str]:
    """(tool module, package) of a program."""
    if name == "etcd":
        return "etcd", "go.etcd.io/etcd/server/v3"
    if name == "kwok":
        return "kwok", "sigs.k8s.io/kwok/cmd/kwok"
    if name == HELM:
        return "helm", "helm.sh/helm/v4/cmd/helm"
    module = "kubernetes" if version == MADE_FOR else f"kubernetes-{version.rpartition('.')[0]}"
    return module, f"k8s.io/kubernetes/cmd/{name}"


def _stamp(name: str, version: str) -> str:
    """What `go install` leaves out: Kubernetes' programs compare each other's versions."""
    major, minor, _ = version.split(".")
    stamp = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor} if name.startswith("kube") else {}
    return "-s -w" + "".join(f" -X k8s.io/component-base/version.{k}={v}" for k, v in stamp.items())


@contextmanager
def _lock(file: Path) -> Iterator[None]:
    with file.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
