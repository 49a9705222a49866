"""The components' objects against the definitions of cert-manager and the Prometheus operator, which do not run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from devcluster.cluster import Devcluster
from tests.kubernetes.installed import MANIFESTS

pytestmark = pytest.mark.controlplane

#: Go modules that hold definitions, and where; the component that needs them.
MODULES = {
    "cert-manager": ("github.com/cert-manager/cert-manager@v1.21.2", "deploy/crds/cert-manager.io_*.yaml"),
    "service-monitor": (
        "github.com/prometheus-operator/prometheus-operator@v0.85.0",
        "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
    ),
}


def definitions(component: str) -> list[Path]:
    """Files of the module, which Go checks against its public checksums and keeps."""
    module, pattern = MODULES[component]
    if shutil.which("go") is None:
        assert os.environ.get("CI") != "true", "no Go, which fetches the definitions"
        pytest.skip("no Go, which fetches the definitions")
    environment = {**os.environ, "GOFLAGS": "", "GOWORK": "off", "GO111MODULE": "on"}
    command = ["go", "mod", "download", "-json", module]
    done = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout or "{}")
    if "Dir" not in found:
        assert os.environ.get("CI") != "true", done.stdout + done.stderr
        pytest.skip(f"{module} cannot be fetched: {found.get('Error', done.stderr)}")
    files = sorted(Path(found["Dir"]).glob(pattern))
    assert files
    return files


@pytest.fixture(scope="module", params=sorted(MODULES))
def component(request: pytest.FixtureRequest, alone: Devcluster) -> str:
    """A component whose kinds the API server serves."""
    for file in definitions(request.param):
        alone.apply(file)
    alone.kubectl("wait", "--for=condition=Established", "crd", "--all")
    return str(request.param)


@pytest.mark.drawn(of=2)
def test_the_api_server_takes_every_object(alone: Devcluster, component: str) -> None:
    space = alone.namespace("components")
    text = "---\n".join(
        file.read_text().replace("rm-system", space)
        for file in sorted((MANIFESTS / "components" / component).glob("*.yaml"))
        if "kind: Component" not in file.read_text() and "nameReference" not in file.read_text()
    )
    wanted = [one["metadata"]["name"] for one in yaml.safe_load_all(text) if one]
    said = alone.kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", input=text)
    assert re.findall(r"/(\S+) created", said) == wanted


def test_a_field_that_there_is_not_is_refused(alone: Devcluster, component: str) -> None:
    space = alone.namespace("components")
    (file,) = list((MANIFESTS / "components" / component).glob("[cm]*s.yaml"))
    (one, *_) = (one for one in yaml.safe_load_all(file.read_text()) if one)
    one["metadata"]["namespace"] = space
    one["spec"]["fieldThatThereIsNot"] = 1
    with pytest.raises(RuntimeError, match=r'unknown field "spec\.fieldThatThereIsNot"'):
        alone.kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", input=json.dumps(one))
