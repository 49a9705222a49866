"""Where the programs of a control plane come from: given, cached, installed, or built with the machine's Go."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

#: Kubernetes' version; etcd and kwok are the ones in their tool modules.
VERSION: Final = "1.36.3"
PROGRAMS: Final = ("etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager", "kubectl", "kwok")
#: Program -> (tool module, package).
_PACKAGES: Final = {
    "etcd": ("etcd", "go.etcd.io/etcd/server/v3"),
    "kwok": ("kwok", "sigs.k8s.io/kwok/cmd/kwok"),
    **{name: ("kubernetes", f"k8s.io/kubernetes/cmd/{name}") for name in PROGRAMS if name.startswith("kube")},
}
_MODULES: Final = Path(__file__).parents[2] / "tests" / "kubernetes" / "controlplane"


class NoBinaries(Exception):
    """A program is neither there nor can it be built; the message says what to install."""


def cache() -> Path:
    """Where built programs are kept, by version, outside any checkout."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "rm-emulator" / "controlplane" / VERSION


def find(name: str) -> Path | None:
    """KUBEBUILDER_ASSETS, the cache, or PATH if it is of our version; None: nowhere."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    for folder in ([Path(assets)] if assets else []) + [cache()]:
        if os.access(folder / name, os.X_OK):
            return folder / name
    there = shutil.which(name)
    return Path(there) if there is not None and _is_ours(there) else None


def _is_ours(program: str) -> bool:
    """Whether an installed program is of the version that the manifests are tested with."""
    flag = ["version", "--client"] if program.endswith("kubectl") else ["--version"]
    try:
        done = subprocess.run([program, *flag], capture_output=True, text=True, timeout=20, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return False
    return f"v{VERSION}" in done.stdout


def missing() -> list[str]:
    """Programs that `find` does not find."""
    return [name for name in PROGRAMS if find(name) is None]


def can_build() -> bool:
    """Whether there is Go, and a checkout with the tool modules."""
    return shutil.which("go") is not None and _MODULES.is_dir()


def need(*, build: bool) -> dict[str, Path]:
    """All programs by name, built first if need be. Raises NoBinaries."""
    if build and missing():
        build_all()
    found = {name: path for name in PROGRAMS if (path := find(name)) is not None}
    lacking = [name for name in PROGRAMS if name not in found]
    if lacking:
        raise NoBinaries(
            f"no {', '.join(lacking)} of version {VERSION}: run `make controlplane` in a checkout (needs Go 1.26, "
            "takes 10 minutes once), or set KUBEBUILDER_ASSETS to a folder that has them"
        )
    return found


def build_all() -> None:
    """Build what is missing; a killed build leaves nothing half-made, and two do not get in each other's way."""
    if not can_build():
        raise NoBinaries("the control plane is built from a checkout with Go 1.26: install it from https://go.dev/dl/")
    cache().mkdir(parents=True, exist_ok=True)
    with _lock(cache() / ".lock"):
        todo = missing()
        for number, name in enumerate(todo, start=1):
            sys.stderr.write(f"[{number}/{len(todo)}] building {name} {VERSION}\n")
            _build(name)


def _build(name: str) -> None:
    module, package = _PACKAGES[name]
    target, made = cache() / name, cache() / f".{name}.new"
    major, minor, _ = VERSION.split(".")
    stamp = {"gitVersion": f"v{VERSION}", "gitMajor": major, "gitMinor": minor}
    flags = "-s -w" + "".join(f" -X k8s.io/component-base/version.{k}={v}" for k, v in stamp.items())
    command = ["go", "build", "-trimpath", "-ldflags", flags, "-o", str(made), package]
    env = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=mod -buildvcs=false", "GOTOOLCHAIN": "local"}
    done = subprocess.run(command, cwd=_MODULES / module, env=env, text=True, stderr=subprocess.PIPE, check=False)  # noqa: S603
    if done.returncode:
        made.unlink(missing_ok=True)
        tail = "\n".join(re.sub(r"\s+$", "", line) for line in done.stderr.splitlines()[-15:])
        raise NoBinaries(f"{name} cannot be built (`go build {package}` in {_MODULES / module}):\n{tail}")
    made.rename(target)


@contextmanager
def _lock(file: Path) -> Iterator[None]:
    with file.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
