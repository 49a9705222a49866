"""`python -m operators.login [--context NAME] [KUBECONFIG]`: prints an `Access` as a line of JSON.

A first line names the plug-in or issuer waited for, if any. Exit code 2 with a line of explanation when there is no
access.

The loaders of the `kubernetes` package do the work. In a process of its own, because the loaders wait without end for
credential plug-ins and OpenID issuers, and only a process can be ended then; the imports are not kept either. Not the
loaders of `kubernetes.aio`, which trust any issuer's certificate, drop renewed tokens, know no provideClusterInfo and
fail for a context without user.
"""

from __future__ import annotations

import argparse
import base64
import binascii
import contextlib
import copy
import json
import logging
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import certifi
import msgspec
import yaml
from kubernetes.client import Configuration
from kubernetes.config import ConfigException
from kubernetes.config.incluster_config import InClusterConfigLoader
from kubernetes.config.kube_config import KubeConfigLoader, KubeConfigMerger

from operators.access import Access, InvalidKubeconfig

_SERVICE_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_FILES: Final = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
_RENEWED: Final = ("id-token", "refresh-token", "access-token", "expiry")
_LONGEST: Final = 2000
_UNDERSTOOD: Final = (
    "token, tokenFile, client-certificate with client-key, exec, auth-provider oidc or gcp, username with password"
)


class _Cluster(msgspec.Struct):
    name: str
    cluster: dict[str, Any]


class _Context(msgspec.Struct):
    name: str
    context: dict[str, Any]


class _Credentials(msgspec.Struct, rename="kebab"):
    auth_provider: dict[str, Any] | None = None
    program: dict[str, Any] | None = msgspec.field(default=None, name="exec")


class _User(msgspec.Struct):
    name: str
    user: _Credentials


class _Kubeconfig(msgspec.Struct, rename="kebab"):
    """The part of a kubeconfig taken for granted, and not checked, by the package."""

    clusters: list[_Cluster] | None = None
    contexts: list[_Context] | None = None
    users: list[_User] | None = None
    current_context: str | None = None


class _Errors(logging.Handler):
    """Collects errors: the package logs a plug-in's failure, and goes on without credentials."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message."""
        self.messages.append(record.getMessage())


def main() -> int:
    """Exit code 2 if there is no access."""
    parser = argparse.ArgumentParser(prog="python -m operators.login", description="Prints how to reach a cluster.")
    parser.add_argument("kubeconfig", nargs="?", default=os.environ.get("KUBECONFIG"), help="file, or files as A:B")
    parser.add_argument("--context", help="instead of the current one")
    asked = parser.parse_args()
    try:
        access = from_kubeconfig(asked.kubeconfig, asked.context) if asked.kubeconfig else in_pod()
    except InvalidKubeconfig as error:
        sys.stdout.write(f"{error}\n")
        return 2
    sys.stdout.write(msgspec.json.encode(access, enc_hook=str).decode() + "\n")
    return 0


def in_pod() -> Access:
    """The pod's ServiceAccount; RM_SERVICEACCOUNT_DIR overrides the files' directory. Raises InvalidKubeconfig."""
    directory = Path(os.environ.get("RM_SERVICEACCOUNT_DIR", _SERVICE_ACCOUNT))
    token, authority = directory / "token", directory / "ca.crt"
    if not os.environ.get("KUBERNETES_SERVICE_HOST") or not token.exists():
        raise InvalidKubeconfig(
            "not in a pod, and no kubeconfig is named: set `kubeconfig` in the configuration file, or KUBECONFIG"
        )
    configuration = Configuration(proxy="")
    try:
        InClusterConfigLoader(str(token), str(authority)).load_and_set(configuration)
        access = Access(url=configuration.host, authority=authority.read_text("ascii"), token_file=token)
        access.tls()
    except (ConfigException, InvalidKubeconfig, OSError, ValueError) as error:
        raise InvalidKubeconfig(f"{directory}: token and ca.crt (PEM) are needed: {_words(error)}") from None
    return access


def from_kubeconfig(files: str, context: str | None = None) -> Access:
    """One context of kubeconfigs merged as kubectl merges them. Raises InvalidKubeconfig."""
    merger = _merged(files)
    currents = (config.get("current-context") for config in merger.config_files.values())
    context = context or next(filter(None, currents), None)  # the package takes the last
    if not context:
        raise InvalidKubeconfig(f"{files}: no current-context is set, and none is named")
    chosen = _entry(files, merger, "context", context)
    cluster = _entry(files, merger, "cluster", chosen.get("cluster"))
    user = _entry(files, merger, "user", chosen["user"]) if chosen.get("user") else {}
    if not str(url := cluster.get("server")).startswith(("https://", "http://")):
        raise InvalidKubeconfig(
            f"{files}: cluster '{chosen['cluster']}': server is '{url}' (an address such as https://host:6443)"
        )
    where = f"{files}: context '{context}', user '{chosen.get('user', '')}'"
    if how := _how(user):
        where += f", who logs in by {how}"
        sys.stdout.write(f"{where}\n")
        sys.stdout.flush()
    try:
        with tempfile.TemporaryDirectory() as directory:
            loader = KubeConfigLoader(
                merger.config,
                active_context=context,
                config_base_path=None,
                config_persister=lambda: _keep(merger, chosen["user"], user),
                temp_file_path=directory,
            )
            access = _loaded(loader, user)
        access.tls()
    except binascii.Error as error:
        raise InvalidKubeconfig(f"{where}: what ends in -data has to be base64: {error}") from None
    except Exception as error:  # the package checks little, so a mistake may show as any error
        raise InvalidKubeconfig(f"{where}: {_words(error)}") from None
    return access


def _merged(files: str) -> KubeConfigMerger:
    """The content of all files, with all paths absolute. Missing files count as empty, unless all are missing."""
    paths = [path for name in files.split(os.pathsep) if name and (path := Path(name).expanduser()).exists()]
    if not paths:
        raise InvalidKubeconfig(f"{files}: cannot be read as a kubeconfig: there is no such file")
    for path in paths:
        try:
            msgspec.convert(yaml.safe_load(path.read_text("utf-8")), _Kubeconfig)
        except (OSError, ValueError, yaml.YAMLError, msgspec.ValidationError) as error:
            raise InvalidKubeconfig(f"{path}: cannot be read as a kubeconfig: {_words(error)}") from None
    merger = KubeConfigMerger(os.pathsep.join(map(str, paths)))
    for kind in ("cluster", "user"):
        for node in merger.config.value[f"{kind}s"]:
            node.name = f"{kind} '{node.value['name']}'"  # for messages; the package's name has all secrets in it
            node.value = node.value | {kind: _completed(node.value[kind], Path(node.path).parent.absolute())}
    return merger


def _completed(entry: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """A copy of a cluster or user for the package: empty entries left out, and paths taken from `folder`.

    The package would take a user's paths from the folder of the cluster.
    """
    entry = {key: copy.deepcopy(value) for key, value in entry.items() if value not in (None, "")}
    for key in _FILES:
        if key in entry:
            entry[key] = str(folder / str(entry[key]))
    command = entry.get("exec", {}).get("command")
    if isinstance(command, str) and os.sep in command:
        entry["exec"]["command"] = str(folder / command)
    provider = entry.get("auth-provider", {})
    if provider.get("name") == "oidc" and isinstance(provider.get("config"), dict):
        config = provider["config"]
        config.setdefault("client-secret", "")  # public clients have none
        if not config.keys() & {"idp-certificate-authority", "idp-certificate-authority-data"}:
            config["idp-certificate-authority"] = certifi.where()  # without, the package trusts any certificate
    return entry


def _entry(files: str, merger: KubeConfigMerger, kind: str, name: Any) -> dict[str, Any]:
    """The content of the entry `name` in the list `kind`s."""
    entries = {node.value["name"]: node.value[kind] for node in merger.config.value[f"{kind}s"]}
    if str(name) not in entries:
        known = ", ".join(entries) or "none"
        raise InvalidKubeconfig(f"{files}: no entry '{name}' among {kind}s (there are: {known})")
    entry: dict[str, Any] = entries[str(name)]
    return entry


def _how(user: Mapping[str, Any]) -> str:
    """The plug-in or provider by which `user` logs in, if any: a login that may take time."""
    provider, program = user.get("auth-provider"), user.get("exec")
    if provider:
        config = provider.get("config")
        issuer = config.get("idp-issuer-url") if isinstance(config, dict) else None
        return f"auth-provider {provider.get('name')}" + (f" at {issuer}" if issuer else "")
    return f"exec plug-in '{program.get('command')}'" if program else ""


def _loaded(loader: KubeConfigLoader, user: Mapping[str, Any]) -> Access:
    """Raises ValueError, and any error of the package."""
    errors, configuration = _Errors(), Configuration(proxy="")  # "": not the environment's
    logging.getLogger().addHandler(errors)
    try:
        loader.load_and_set(configuration)
    finally:
        logging.getLogger().removeHandler(errors)
    authorization = configuration.api_key.get("BearerToken", "")
    token_file = user.get("tokenFile") if not user.keys() & {"token", "auth-provider"} else None
    if errors.messages:
        hint = user.get("exec", {}).get("installHint")
        raise ValueError("; ".join([*errors.messages, *([str(hint)] if hint else [])]))
    if not authorization.isprintable() and not token_file:
        raise ValueError("the token is no word of text")
    if configuration.proxy and not configuration.proxy.startswith(("https://", "http://")):
        raise ValueError(f"proxy-url is '{configuration.proxy}' (an address such as http://host:3128)")
    if user.keys() & {"as", "as-uid", "as-groups", "as-user-extra"}:
        raise ValueError("impersonation ('as') is not supported; log in as the user that is meant")
    if user and not (authorization or token_file or configuration.cert_file or configuration.key_file):
        raise ValueError(f"nothing to log in by: seen {', '.join(user)} (understood: {_UNDERSTOOD})")
    return Access(
        url=configuration.host,
        authority=_text(configuration.ssl_ca_cert),
        certificate=_text(configuration.cert_file),
        key=_text(configuration.key_file),
        verify=configuration.verify_ssl,
        server_name=configuration.tls_server_name,
        proxy=configuration.proxy or None,
        authorization="" if token_file else authorization,
        token_file=Path(token_file) if token_file else None,
        expires=_expiry(loader, user, authorization),
    )


def _expiry(loader: KubeConfigLoader, user: Mapping[str, Any], authorization: str) -> float | None:
    """When the credentials end, s since 1970. Raises ValueError for an id-token not renewed by the issuer."""
    if user.get("auth-provider", {}).get("name") != "oidc":
        told = getattr(loader, "expiry", None)
        return told.timestamp() if told is not None else None
    claims = json.loads(base64.urlsafe_b64decode(authorization.split(".")[1] + "=="))
    expires: float | None = claims.get("exp")
    if expires is not None and expires <= time.time():
        raise ValueError("the id-token has expired, and the issuer gave no new one; log in anew")
    return expires


def _keep(merger: KubeConfigMerger, name: str, user: Mapping[str, Any]) -> None:
    """Write renewed tokens to the file of the old, as kubectl does: some issuers take a refresh token once."""
    renewed = user["auth-provider"]["config"]
    entries = (entry for config in merger.config_files.values() for entry in config.get("users") or ())
    stored = next(entry for entry in entries if entry["name"] == name)["user"]["auth-provider"].setdefault("config", {})
    stored.update({key: renewed[key] for key in _RENEWED if key in renewed})
    with contextlib.suppress(OSError):  # a Secret's mount cannot be written
        merger.save_changes()


def _text(file: str | None) -> str:
    text = Path(file).read_text("ascii") if file else ""
    if file and not text.strip():
        raise ValueError("certificate-authority, client-certificate or client-key is empty, or no base64")
    return text


def _words(error: Exception) -> str:
    """One line."""
    return " ".join(str(error).split())[:_LONGEST] or type(error).__name__


if __name__ == "__main__":
    sys.exit(main())
