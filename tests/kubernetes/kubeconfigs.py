"""Kubeconfigs and credential plug-ins for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

API_VERSION = "client.authentication.k8s.io/v1"


def kubeconfig(
    folder: Path, cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, **rest: Any
) -> Path:
    """A file with one context, `here`, of cluster `c` and user `u`; `rest` replaces whole parts of it."""
    file = folder / "kubeconfig"
    content = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://localhost:6443"} | (cluster or {})}],
        "users": [{"name": "u", "user": user or {}}],
    }
    file.write_text(yaml.safe_dump(content | rest))
    return file


class Plugin:
    """A credential plug-in: a shell script that notes each call, and prints what `status` of it is."""

    def __init__(self, folder: Path) -> None:
        self.file, self._status, self._calls = folder / "log-in.sh", folder / "status.json", folder / "calls"
        self.does(f"echo x >> '{self._calls}'; cat '{self._status}'")

    def does(self, script: str) -> None:
        """What it does from now on."""
        self.file.write_text(f"#!/bin/sh\n{script}\n")
        self.file.chmod(0o755)

    def says(self, **status: Any) -> None:
        """What it prints from now on, as ExecCredential's status."""
        self.prints(json.dumps({"apiVersion": API_VERSION, "kind": "ExecCredential", "status": status}))

    def prints(self, text: str) -> None:
        """The same, in any words."""
        fresh = self._status.with_suffix(".new")
        fresh.write_text(text)
        fresh.replace(self._status)

    @property
    def calls(self) -> int:
        """How often it was asked."""
        return len(self._calls.read_text().split()) if self._calls.exists() else 0

    def user(self, **more: Any) -> dict[str, Any]:
        """The user of a kubeconfig who logs in by it."""
        return {"exec": {"apiVersion": API_VERSION, "command": str(self.file), "interactiveMode": "Never"} | more}
