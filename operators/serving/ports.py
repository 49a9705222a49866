"""Where a process listens, as its configuration says."""

from __future__ import annotations

import ipaddress
from typing import Annotated

import msgspec

from operators.config import Millis, Text

Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]
Fraction = Annotated[float, msgspec.Meta(gt=0, le=1)]


class Tls(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Certificate of the verb port and its permitted callers; the files are read again when they change."""

    cert_file: Text
    """The server's certificate."""
    key_file: Text
    """The server's key."""
    client_ca_file: Text
    """Authority of the clients' certificates."""
    client_names: tuple[Text, ...] = ("system:kube-scheduler", "rm-scheduler")
    """Accepted clients: common names or alternative names (DNS, URI) of their certificates."""
    reload_every: Millis = Millis(10_000)
    """Time between two looks at the files."""

    def __post_init__(self) -> None:
        if not self.client_names:
            raise ValueError("clientNames: names nobody, so that no call would be answered")


class ExtenderPort(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where kube-scheduler calls. Without TLS the address must be a loopback one."""

    address: Text = "127.0.0.1"
    """Address to listen on."""
    port: Port = 8443
    """Port to listen on; 0: any free port."""
    http_timeout: Millis = Millis(5000)
    """Timeout of kube-scheduler's calls, as in kube-scheduler's configuration."""
    budget: Fraction = 0.8
    """Part of `http_timeout` after which a call is answered by an error."""
    tls: Tls | None
    """Certificates; None: plain HTTP on loopback."""

    def __post_init__(self) -> None:
        if self.tls is None and not is_loopback(self.address):
            raise ValueError(
                f"tls: null, but address '{self.address}' can be reached from elsewhere: anybody could ask for nodes "
                "(give tls certFile, keyFile and clientCaFile, or the address 127.0.0.1)"
            )
        if not self.http_timeout:
            raise ValueError("httpTimeout: no time at all (write what kube-scheduler's configuration says, such as 5s)")

    @property
    def budget_s(self) -> float:
        """Seconds that a call may take."""
        return self.http_timeout * self.budget / 1000


class ManagementPort(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Probes and metrics, by plain HTTP. Port 0: any free port."""

    address: Text = "0.0.0.0"  # noqa: S104 (the kubelet and Prometheus come from outside the pod)
    port: Port = 8080


def is_loopback(address: str) -> bool:
    """Whether only this host can reach the address."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"
