"""kube-scheduler's side of the extender: bodies as it sends them, a brain that records, certificates."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from operators.extender.app import Extender
from operators.extender.wire import FilterAnswer, Victims
from schedulers.objects.pod import Pod

POD = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": {"containers": [{"name": "c"}]}, "status": {}}


class Recorder:
    """A brain that takes the first node, says nothing of the others, and remembers what it was asked."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Pod, Any]] = []
        self.why_not: str | None = None
        self.answer: Callable[[Pod, Sequence[str]], FilterAnswer] = lambda pod, nodes: FilterAnswer(list(nodes[:1]))
        self.scores: list[tuple[str, int]] | None = None
        self.victims: Victims | None = None

    def not_ready(self) -> str | None:
        return self.why_not

    def filter(self, pod: Pod, nodes: Sequence[str]) -> FilterAnswer:
        self.calls.append(("filter", pod, list(nodes)))
        return self.answer(pod, nodes)

    def prioritize(self, pod: Pod, nodes: Sequence[str]) -> list[tuple[str, int]]:
        self.calls.append(("prioritize", pod, list(nodes)))
        return [(name, 1) for name in nodes] if self.scores is None else self.scores

    def preempt(self, pod: Pod, victims: Victims) -> Victims:
        self.calls.append(("preempt", pod, victims))
        return victims if self.victims is None else self.victims


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


def call(
    decider: Recorder,
    verb: str,
    body: object,
    *,
    method: str = "POST",
    content_type: str = "application/json",
    **settings: Any,
) -> Reply:
    """One call through the app, without a socket. body: bytes as they are, anything else as JSON."""
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    app = Extender(decider, **{"budget_s": 5.0, **settings}).app()
    headers = [(b"content-type", content_type.encode()), (b"content-length", str(len(data)).encode())]
    return asyncio.run(_drive(app, verb, method, headers, [data]))


async def _drive(app: Any, verb: str, method: str, headers: Iterable[tuple[bytes, bytes]], parts: list[bytes]) -> Reply:
    coming = [{"type": "http.request", "body": p, "more_body": i < len(parts) - 1} for i, p in enumerate(parts)]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return coming.pop(0) if coming else {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "https",
        "path": f"/v1/{verb}",
        "raw_path": f"/v1/{verb}".encode(),
        "root_path": "",
        "query_string": b"",
        "headers": list(headers),
        "client": None,
        "server": None,
        "state": {},
    }
    await app(scope, receive, send)
    start = sent[0]
    heads = {name.decode(): value.decode() for name, value in start["headers"]}
    return Reply(start["status"], heads, b"".join(message.get("body", b"") for message in sent[1:]))


class Authority:
    """A certificate authority with files in a folder."""

    def __init__(self, folder: Path, name: str = "test-ca") -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._builder(self._name, self._key.public_key(), days=30).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.file = folder / f"{name}.crt"
        self.file.write_bytes(_pem(certificate.sign(self._key, hashes.SHA256())))

    def issue(
        self, file: str, name: str, *, days: float = 30, alternative: Iterable[str] = (), server: bool = False
    ) -> tuple[Path, Path]:
        """(certificate, key) files of a new pair for `name`; days below zero: it has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else [])
        usage = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = self._builder(subject, key.public_key(), days=days)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        others: list[x509.GeneralName] = [x509.DNSName(text) for text in alternative]
        if server:
            others += [x509.DNSName("extender"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        if others:
            builder = builder.add_extension(x509.SubjectAlternativeName(others), critical=False)
        pair = self.folder / f"{file}.crt", self.folder / f"{file}.key"
        for path, data in zip(pair, (_pem(builder.sign(self._key, hashes.SHA256())), _key_pem(key)), strict=True):
            path.unlink(missing_ok=True)
            path.write_bytes(data)
        return pair

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey, *, days: float) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=60))
            .not_valid_after(now + datetime.timedelta(days=days))
        )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
