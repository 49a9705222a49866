"""A certificate authority of its own, and what it signs. Made anew for every devcluster; worth nothing elsewhere."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path
from typing import Final

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFE: Final = datetime.timedelta(days=30)


class Authority:
    """Signs certificates; its own is `ca.crt` in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if (folder / "ca.key").exists():
            key = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), None)
            assert isinstance(key, ec.EllipticCurvePrivateKey)
            self._key = key
            self._cert = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
        else:
            self._key = ec.generate_private_key(ec.SECP256R1())
            name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "devcluster")])
            builder = _builder(name, name, self._key.public_key())
            constraints = x509.BasicConstraints(ca=True, path_length=None)
            self._cert = builder.add_extension(constraints, critical=True).sign(self._key, hashes.SHA256())
            write(folder / "ca.key", _pem(self._key))
            write(folder / "ca.crt", self._cert.public_bytes(serialization.Encoding.PEM))

    @property
    def ca(self) -> Path:
        """The authority's own certificate."""
        return self.folder / "ca.crt"

    def issue(
        self, file: str, name: str, *, groups: tuple[str, ...] = (), hosts: tuple[str, ...] = ()
    ) -> tuple[Path, Path]:
        """A pair `file.crt`, `file.key`. hosts: names and addresses of a server; without, it is a client's."""
        certificate, private = self.folder / f"{file}.crt", self.folder / f"{file}.key"
        key = ec.generate_private_key(ec.SECP256R1())
        parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = _builder(subject, self._cert.subject, key.public_key())
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName([_host(h) for h in hosts]), critical=False)
        write(private, _pem(key))
        write(certificate, builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        return certificate, private

    def service_account_keys(self) -> tuple[Path, Path]:
        """(public, private) key by which ServiceAccounts' tokens are signed."""
        public, private = self.folder / "sa.pub", self.folder / "sa.key"
        if not private.exists():
            key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
            form = serialization.PublicFormat.SubjectPublicKeyInfo
            write(private, _pem(key))
            write(public, key.public_key().public_bytes(serialization.Encoding.PEM, form))
        return public, private

    def kubeconfig(self, file: Path, server: str, user: dict[str, str]) -> Path:
        """A kubeconfig for `server`; user: `client-certificate` and `client-key`, or `token` or `tokenFile`."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "devcluster", "cluster": {"server": server, "certificate-authority": str(self.ca)}}],
            "users": [{"name": "user", "user": user}],
            "contexts": [{"name": "devcluster", "context": {"cluster": "devcluster", "user": "user"}}],
            "current-context": "devcluster",
        }
        write(file, yaml.safe_dump(config).encode())
        return file


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(issuer, subject, key, x509.random_serial_number())
    return builder.not_valid_before(now - datetime.timedelta(minutes=5)).not_valid_after(now + _LIFE)


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    form = serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def write(path: Path, content: bytes) -> None:
    """A file for its owner alone, there as a whole or not at all."""
    beside = path.with_name(f".{path.name}.new")
    beside.touch(0o600)
    beside.write_bytes(content)
    beside.rename(path)
