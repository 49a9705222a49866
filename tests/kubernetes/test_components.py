"""The components beside the overlays, looked at without a cluster: they name what the overlays name."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.kubernetes.test_manifests import CONFIGS, MANIFESTS, by_name, config_of, read

CERTIFICATES = by_name("Certificate", "components/cert-manager")
ISSUERS = by_name("Issuer", "components/cert-manager")


def secrets() -> set[str]:
    """The Secrets that the overlay production mounts."""
    (deployment,) = read(MANIFESTS / "overlays" / "production" / "brain.yaml")
    volumes = deployment["spec"]["template"]["spec"]["volumes"]
    return {volume["secret"]["secretName"] for volume in volumes if "secret" in volume}


def leaf(secret: str) -> dict[str, Any]:
    (spec,) = (one["spec"] for one in CERTIFICATES.values() if one["spec"]["secretName"] == secret)
    return dict(spec)


def test_cert_manager_makes_the_secrets_that_are_mounted() -> None:
    made = {one["spec"]["secretName"] for one in CERTIFICATES.values()}
    authorities = {one["spec"]["ca"]["secretName"] for one in ISSUERS.values() if "ca" in one["spec"]}
    assert made == secrets() | authorities


def test_every_certificate_has_an_issuer() -> None:
    assert {one["spec"]["issuerRef"]["name"] for one in CERTIFICATES.values()} == set(ISSUERS)


def test_kube_scheduler_expects_the_name_of_the_certificate() -> None:
    (extender,) = yaml.safe_load(config_of(CONFIGS[1], "rm-scheduler"))["extenders"]
    assert extender["tlsConfig"]["serverName"] in leaf("rm-brain-tls")["dnsNames"]


def test_brain_accepts_the_clients_name() -> None:
    names = yaml.safe_load(config_of(CONFIGS[1], "rm-brain"))["extender"]["tls"]["clientNames"]
    assert leaf("rm-scheduler-tls")["commonName"] in names


@pytest.mark.parametrize(("secret", "usage"), [("rm-brain-tls", "server auth"), ("rm-scheduler-tls", "client auth")])
def test_a_certificate_is_for_one_side_alone(secret: str, usage: str) -> None:
    assert leaf(secret)["usages"] == ["digital signature", usage]


def test_the_authority_keeps_its_key() -> None:
    """Or those who have read its certificate would not trust what is signed with the next key."""
    (authority,) = (one["spec"] for one in CERTIFICATES.values() if one["spec"].get("isCA"))
    assert authority["privateKey"]["rotationPolicy"] == "Never"


def test_monitors_name_ports_of_services_that_they_select() -> None:
    services = [*by_name("Service").values(), *by_name("Service", "components").values()]
    for monitor in by_name("ServiceMonitor", "components").values():
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        ports = {
            port["name"]
            for one in services
            if wanted <= one["metadata"]["labels"].items()
            for port in one["spec"]["ports"]
        }
        assert {endpoint["port"] for endpoint in monitor["spec"]["endpoints"]} == ports
