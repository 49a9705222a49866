"""Who we are to which API server: kubeconfigs, a pod's ServiceAccount, credential plug-ins, OpenID."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from devcluster.pki import Authority
from operators.access import Access, InvalidKubeconfig, Login
from operators.login import from_kubeconfig, in_pod
from tests.kubernetes.kubeconfigs import API_VERSION, Plugin, kubeconfig


def logged_in(kubeconfig: Path | str | None, **settings: Any) -> Access:
    """By the process that does it for clients."""
    return asyncio.run(Login(kubeconfig=kubeconfig and str(kubeconfig), **settings)())


@pytest.fixture(scope="module")
def pair() -> tuple[bytes, bytes]:
    """A self-signed certificate and its key, PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "somebody")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    return certificate.public_bytes(pem), key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def data(content: bytes) -> str:
    return base64.b64encode(content).decode()


# -- kubeconfig ---------------------------------------------------------------------------------


def test_a_kubeconfig_with_inline_certificates(tmp_path: Path, pair: tuple[bytes, bytes]) -> None:
    certificate, key = pair
    user = {"client-certificate-data": data(certificate), "client-key-data": data(key)}
    access = logged_in(kubeconfig(tmp_path, {"certificate-authority-data": data(certificate)}, user))
    assert (access.url, access.certificate, access.key) == ("https://localhost:6443", *map(bytes.decode, pair))
    tls = access.tls()
    assert tls is not None
    assert tls.verify_mode == ssl.CERT_REQUIRED


def test_files_are_found_beside_the_kubeconfig(tmp_path: Path, pair: tuple[bytes, bytes]) -> None:
    for name, content in (("ca.crt", pair[0]), ("me.crt", pair[0]), ("me.key", pair[1]), ("token", b"abc")):
        (tmp_path / name).write_bytes(content)
    user = {"client-certificate": "me.crt", "client-key": "me.key", "tokenFile": "token"}
    access = from_kubeconfig(str(kubeconfig(tmp_path, {"certificate-authority": "ca.crt"}, user)))
    assert access.headers() == {"Authorization": "Bearer abc"}
    assert access.authority == access.certificate == pair[0].decode()


def test_a_token_file_is_told_by_name_because_it_is_written_anew(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first\n")
    access = from_kubeconfig(str(kubeconfig(tmp_path, {}, {"tokenFile": "token"})))
    (tmp_path / "token").write_text("second\n")
    assert access.headers() == {"Authorization": "Bearer second"}


def test_a_context_without_user_is_anonymous(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path, contexts=[{"name": "here", "context": {"cluster": "c"}}])
    assert from_kubeconfig(str(file)).headers() == {}


def test_a_name_and_a_password_are_a_basic_authorization(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path, {}, {"username": "me", "password": "secret"})
    assert from_kubeconfig(str(file)).headers() == {"Authorization": f"Basic {data(b'me:secret')}"}


def test_another_context_by_its_name(tmp_path: Path) -> None:
    contexts = [{"name": name, "context": {"cluster": name, "user": "u"}} for name in ("here", "there")]
    clusters = [{"name": name, "cluster": {"server": f"https://{name}:6443"}} for name in ("here", "there")]
    file = kubeconfig(tmp_path, contexts=contexts, clusters=clusters)
    assert logged_in(file, context="there").url == "https://there:6443"


def test_how_a_cluster_is_reached(tmp_path: Path) -> None:
    cluster = {"proxy-url": "http://proxy:3128", "tls-server-name": "inside", "insecure-skip-tls-verify": True}
    access = from_kubeconfig(str(kubeconfig(tmp_path, cluster)))
    tls = access.tls()
    assert (access.proxy, access.server_name, access.verify) == ("http://proxy:3128", "inside", False)
    assert tls is not None
    assert tls.verify_mode == ssl.CERT_NONE


def test_a_proxy_of_the_environment_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    assert from_kubeconfig(str(kubeconfig(tmp_path))).proxy is None


BAD = data(b"no pem")


@pytest.mark.parametrize(
    ("cluster", "user", "rest", "said"),
    [
        ({"server": None}, {}, {}, "cluster 'c': server is 'None'"),
        ({"server": "localhost:6443"}, {}, {}, "cluster 'c': server is 'localhost:6443'"),
        ({"proxy-url": "socks5://proxy"}, {}, {}, "proxy-url is 'socks5://proxy'"),
        ({"certificate-authority-data": BAD}, {}, {}, "certificate-authority holds no PEM certificate"),
        ({"certificate-authority-data": "%"}, {}, {}, "certificate-authority"),
        ({"certificate-authority-data": "abcde"}, {}, {}, "-data has to be base64"),
        ({"certificate-authority": "nowhere.crt"}, {}, {}, "nowhere.crt"),
        ({"certificate-authority": ["x"]}, {}, {}, "context 'here'"),
        ({}, {"client-certificate-data": BAD, "client-key-data": BAD}, {}, "client-certificate and client-key are no"),
        ({}, {"client-certificate-data": BAD}, {}, "are both needed"),
        ({}, {"tokenFile": "nowhere"}, {}, "user 'u'.*nowhere"),
        ({}, {"token": "two\nlines"}, {}, "the token is no word"),
        ({}, {"password": "secret"}, {}, r"nothing to log in by: seen password \(understood: token, "),
        ({}, {"auth-provider": {"name": "azure"}}, {}, "auth-provider azure: nothing to log in by"),
        ({}, {"token": "abc", "as": "someone"}, {}, "impersonation"),
        ({}, {"auth-provider": "oidc"}, {}, r"got `str` - at `\$.users\[0\]?.*auth-provider"),
        ({}, {"exec": "aws"}, {}, r"got `str` - at `\$.users.*exec`"),
        ({}, {"exec": {"command": "aws"}}, {}, "by exec plug-in 'aws': .*missing key 'apiVersion'"),
        ({}, {}, {"current-context": ""}, "no current-context is set"),
        ({}, {}, {"current-context": "there"}, r"no entry 'there' among contexts \(there are: here\)"),
        ({}, {}, {"contexts": [{"name": "here"}]}, r"required field `context` - at `\$.contexts"),
        ({}, {}, {"contexts": "x"}, r"Expected `array \| null`, got `str` - at `\$.contexts`"),
        (
            {},
            {},
            {"contexts": [{"name": "here", "context": {"cluster": ["c"]}}]},
            "no entry '\\['c'\\]' among clusters",
        ),
        ({}, {}, {"clusters": [None]}, r"at `\$.clusters"),
        ({}, {}, {"users": None}, r"no entry 'u' among users \(there are: none\)"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_says_where(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], rest: dict[str, Any], said: str
) -> None:
    file = kubeconfig(tmp_path, cluster, user, **rest)
    with pytest.raises(InvalidKubeconfig, match=said) as refused:
        from_kubeconfig(str(file))
    assert str(file) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_no_message_has_a_secret_in_it(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path, {}, {"token": "", "password": "hush-hush", "exec": {"apiVersion": API_VERSION}})
    with pytest.raises(InvalidKubeconfig, match="missing key 'command'") as refused:
        from_kubeconfig(str(file))
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize("content", [b"- a\n", b"a: [", b"\x00", b"", b"\xff\xfe", None])
def test_a_file_that_is_no_kubeconfig(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "k"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InvalidKubeconfig, match="k: cannot be read as a kubeconfig: "):
        from_kubeconfig(str(file))


def test_a_folder_is_no_kubeconfig(tmp_path: Path) -> None:
    with pytest.raises(InvalidKubeconfig, match="Is a directory"):
        from_kubeconfig(str(tmp_path))


def test_an_encrypted_key_is_refused_and_nobody_is_asked_for_a_password(
    tmp_path: Path, pair: tuple[bytes, bytes]
) -> None:
    key = serialization.load_pem_private_key(pair[1], None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    user = {"client-certificate-data": data(pair[0]), "client-key-data": data(key)}
    with pytest.raises(InvalidKubeconfig, match="the key is encrypted"):
        from_kubeconfig(str(kubeconfig(tmp_path, {}, user)))


# -- several files ------------------------------------------------------------------------------


@pytest.fixture
def two(tmp_path: Path, pair: tuple[bytes, bytes]) -> tuple[Path, Path]:
    """Contexts in the first; cluster `c` in both; users in the second, with files beside it."""
    folders = tmp_path / "a", tmp_path / "b"
    for folder in folders:
        folder.mkdir()
    for name, content in (("me.crt", pair[0]), ("me.key", pair[1])):
        (folders[1] / name).write_bytes(content)
    (folders[0] / "ca.crt").write_bytes(pair[0])
    users = [{"name": "u", "user": {"client-certificate": "me.crt", "client-key": "me.key"}}]
    first = kubeconfig(folders[0], {"certificate-authority": "ca.crt"}, users=None)
    second = kubeconfig(folders[1], {"server": "https://second:6443"}, users=users, **{"current-context": "other"})
    return first, second


def test_of_several_files_the_first_wins_and_each_has_its_own_folder(
    two: tuple[Path, Path], pair: tuple[bytes, bytes]
) -> None:
    access = from_kubeconfig(f"{two[0]}:{two[1]}")
    assert (access.url, access.authority) == ("https://localhost:6443", pair[0].decode())
    assert (access.certificate, access.key) == tuple(map(bytes.decode, pair))


def test_files_that_are_missing_or_say_little_leave_room_for_the_others(two: tuple[Path, Path], tmp_path: Path) -> None:
    little = tmp_path / "little"
    little.write_text("apiVersion: v1\nkind: Config\ncurrent-context: ''\nusers: []\n")
    assert from_kubeconfig(f"{tmp_path / 'nowhere'}:{little}::{two[0]}:{two[1]}").url == "https://localhost:6443"


def test_the_variable_counts_where_nothing_is_configured(
    two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", f"{two[0]}:{two[1]}")
    assert logged_in(None).url == "https://localhost:6443"
    monkeypatch.setenv("KUBECONFIG", "nowhere")
    assert logged_in(f"{two[0]}:{two[1]}").url == "https://localhost:6443"


# -- in a pod -----------------------------------------------------------------------------------


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pair: tuple[bytes, bytes]) -> Path:
    """The directory of a pod's ServiceAccount."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setenv("RM_SERVICEACCOUNT_DIR", str(tmp_path))
    for name, content in (("token", b"abc\n"), ("ca.crt", pair[0]), ("namespace", b"rm-system\n")):
        (tmp_path / name).write_bytes(content)
    return tmp_path


def test_in_a_pod_the_service_account_says_who_we_are(account: Path) -> None:
    access = logged_in(None)
    assert access.url == "https://[fd00::1]:443"
    assert access.headers() == {"Authorization": "Bearer abc"}
    (account / "token").write_text("def\n")
    assert access.headers() == {"Authorization": "Bearer def"}


@pytest.mark.parametrize("content", [None, b"", b"no pem"])
def test_in_a_pod_without_usable_authority_the_file_is_named(account: Path, content: bytes | None) -> None:
    (account / "ca.crt").unlink()
    if content is not None:
        (account / "ca.crt").write_bytes(content)
    with pytest.raises(InvalidKubeconfig, match=r"ca\.crt"):
        in_pod()


def test_outside_a_pod_a_kubeconfig_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBERNETES_SERVICE_HOST", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InvalidKubeconfig, match="set `kubeconfig`"):
        logged_in(None)


# -- credential plug-ins ------------------------------------------------------------------------


def test_a_plugin_gives_a_token_and_says_when_it_ends(tmp_path: Path, plugin: Plugin) -> None:
    plugin.says(token="abc", expirationTimestamp="2035-01-02T03:04:05Z")
    access = logged_in(kubeconfig(tmp_path, {}, plugin.user()))
    assert access.headers() == {"Authorization": "Bearer abc"}
    assert access.expires == datetime(2035, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp()


def test_a_plugin_gives_a_certificate(tmp_path: Path, plugin: Plugin, pair: tuple[bytes, bytes]) -> None:
    plugin.says(clientCertificateData=pair[0].decode(), clientKeyData=pair[1].decode())
    access = from_kubeconfig(str(kubeconfig(tmp_path, {}, plugin.user())))
    assert (access.certificate, access.key) == tuple(map(bytes.decode, pair))


def test_a_plugin_is_told_of_the_cluster_and_given_arguments_and_variables(tmp_path: Path, plugin: Plugin) -> None:
    plugin.does(f"""echo "$KUBERNETES_EXEC_INFO" > '{tmp_path / "info"}'
        echo '{{"apiVersion": "{API_VERSION}", "kind": "ExecCredential", "status": {{"token": "'$1-$REGION'"}}}}'""")
    user = plugin.user(args=["one"], env=[{"name": "REGION", "value": "west"}], provideClusterInfo=True)
    access = logged_in(kubeconfig(tmp_path, {}, user))
    assert access.headers() == {"Authorization": "Bearer one-west"}
    told = json.loads((tmp_path / "info").read_text())["spec"]
    assert (told["cluster"]["server"], told["interactive"]) == ("https://localhost:6443", False)


def test_a_plugin_with_a_path_is_found_from_its_kubeconfig(tmp_path: Path, plugin: Plugin) -> None:
    plugin.says(token="abc")
    file = kubeconfig(tmp_path, {}, plugin.user(command=f"./{plugin.file.name}"))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "k").write_text(yaml.safe_dump({"clusters": yaml.safe_load(file.read_text())["clusters"]}))
    assert from_kubeconfig(f"{elsewhere / 'k'}:{file}").authorization == "Bearer abc"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'no session' >&2; exit 3", "process returned 3. no session"),
        ("exit 1", "process returned 1"),
        ("echo rubbish", "failed to decode process output"),
        ("true", "failed to decode process output"),
        ("printf '\\377\\376'", "can't decode byte"),
        ("echo '[]'", "malformed response"),
        ("echo 1", "context 'here'"),
        (f"""echo '{{"apiVersion": "{API_VERSION}beta1", "kind": "x", "status": {{}}}}'""", "does not match"),
        (f"""echo '{{"apiVersion": "{API_VERSION}", "kind": "x", "status": null}}'""", "context 'here'"),
        (f"""echo '{{"apiVersion": "{API_VERSION}", "kind": "x", "status": {{}}}}'""", "missing token or"),
        (f"""echo '{{"apiVersion": "{API_VERSION}", "kind": "x", "status": {{"token": "a\\\\nb"}}}}'""", "no word of"),
        (
            f"""echo '{{"apiVersion": "{API_VERSION}", "kind": "x", "status": {{"clientCertificateData": "x"}}}}'""",
            "missing clientKeyData",
        ),
        (
            f"""echo '{{"apiVersion": "{API_VERSION}", "kind": "x",
                "status": {{"token": "a", "expirationTimestamp": "soon"}}}}'""",
            "Invalid RFC3339 datetime: 'soon'",
        ),
    ],
)
def test_a_plugin_that_fails_or_prints_rubbish_is_named(tmp_path: Path, plugin: Plugin, script: str, said: str) -> None:
    plugin.does(script)
    file = kubeconfig(tmp_path, {}, plugin.user())
    with pytest.raises(InvalidKubeconfig, match=said) as refused:
        from_kubeconfig(str(file))
    assert str(refused.value).startswith(
        f"{file}: context 'here', user 'u', who logs in by exec plug-in '{plugin.file}'"
    )
    assert "\n" not in str(refused.value)


def test_a_plugin_that_is_not_installed_says_how_it_would_be(tmp_path: Path) -> None:
    user = {"exec": {"apiVersion": API_VERSION, "command": "no-such-program", "installHint": "get it from\nthe shop"}}
    with pytest.raises(InvalidKubeconfig, match="No such file or directory: 'no-such-program'; get it from the shop"):
        logged_in(kubeconfig(tmp_path, {}, user))


def test_a_plugin_that_hangs_is_ended_with_all_that_it_has_started(
    tmp_path: Path, plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    fifo, limits, limit = tmp_path / "fifo", [], asyncio.timeout
    os.mkfifo(fifo)
    plugin.does(f"exec 3> '{fifo}'; echo begun >&3; sleep 1000 & wait")
    file = kubeconfig(tmp_path, {}, plugin.user())

    def unlimited(_seconds: float) -> asyncio.Timeout:
        limits.append(limit(None))
        return limits[0]

    async def hang(pipe: int) -> None:
        login = asyncio.ensure_future(Login(kubeconfig=str(file), timeout_s=60)())
        assert await asyncio.to_thread(os.read, pipe, 6) == b"begun\n"
        # A little later, so that the loop has read whose plug-in it is: the line lies in the pipe by now.
        limits[0].reschedule(asyncio.get_running_loop().time() + 0.1)
        with pytest.raises(InvalidKubeconfig, match=f"{file}: .*'{plugin.file}': no answer within 60 s"):
            await login

    monkeypatch.setattr(asyncio, "timeout", unlimited)
    both = os.open(fifo, os.O_RDWR)  # so that reading waits for a writer
    pipe = os.open(fifo, os.O_RDONLY)
    asyncio.run(hang(pipe))
    os.close(both)
    assert os.read(pipe, 1) == b""  # nobody holds the other end any more
    os.close(pipe)


def test_a_process_that_cannot_log_in_ends_with_code_2_and_one_line(tmp_path: Path, plugin: Plugin) -> None:
    plugin.does("echo 'no session' >&2; exit 3")
    file, config = kubeconfig(tmp_path, {}, plugin.user()), tmp_path / "config.yaml"
    config.write_text(f"kubeconfig: {file}\n")
    command = [sys.executable, "-m", "operators.controllers", "--config", str(config)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, len(ended.stderr.splitlines())) == (2, 1)
    assert f"{file}: context 'here', user 'u'" in ended.stderr
    assert "no session" in ended.stderr


# -- OpenID -------------------------------------------------------------------------------------


def id_token(expires: float) -> str:
    """A token as an issuer would sign it; the bytes of its claims need both letters that only URLs' base64 has."""
    claims = json.dumps({"exp": expires, "name": "\u00fb\u00ff~~~???"}, ensure_ascii=False).encode()
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in (b'{"alg":"none"}', claims, b"x"))


class Issuer:
    """Gives `fresh` for the refresh token `once`, which it takes once."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder / "issuer")
        self.fresh, self.asked, self.url = id_token(time.time() + 3600), [], ""

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Issuer]:
        certificate, key = self.authority.issue("issuer", "issuer", hosts=("127.0.0.1",))
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(certificate, key)
        app = web.Application()
        app.router.add_get("/.well-known/openid-configuration", self._describe)
        app.router.add_post("/token", self._renew)
        runner = web.AppRunner(app, shutdown_timeout=0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        self.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()

    def user(self, token: str, **more: Any) -> dict[str, Any]:
        config = {
            "client-id": "rm",
            "id-token": token,
            "refresh-token": "once",
            "idp-issuer-url": self.url,
            "idp-certificate-authority-data": data(self.authority.ca.read_bytes()),
        } | more
        config = {key: value for key, value in config.items() if value is not None}
        return {"auth-provider": {"name": "oidc", "config": config}}

    async def _describe(self, _request: web.Request) -> web.Response:
        return web.json_response({"issuer": self.url, "token_endpoint": f"{self.url}/token"})

    async def _renew(self, request: web.Request) -> web.Response:
        form = await request.post()
        self.asked.append(form["refresh_token"])
        if form["refresh_token"] != "once" or len(self.asked) > 1:
            return web.json_response({"error": "invalid_grant"}, status=400)
        return web.json_response({"id_token": self.fresh, "access_token": "a", "refresh_token": "twice"})


@pytest.fixture
def issuer(tmp_path: Path) -> Issuer:
    return Issuer(tmp_path)


def test_an_id_token_is_used_while_it_is_valid(tmp_path: Path, issuer: Issuer) -> None:
    expires = time.time() + 3600
    access = from_kubeconfig(str(kubeconfig(tmp_path, {}, issuer.user(id_token(expires)))))
    assert access.headers() == {"Authorization": f"Bearer {id_token(expires)}"}
    assert access.expires == expires


def test_an_expired_id_token_is_renewed_and_the_file_keeps_the_new_tokens(tmp_path: Path, issuer: Issuer) -> None:
    async def renew() -> Access:
        async with issuer.serving():
            return await Login(kubeconfig=str(kubeconfig(tmp_path, {}, issuer.user(id_token(1)))))()

    access = asyncio.run(renew())
    assert access.authorization == f"Bearer {issuer.fresh}"
    stored = yaml.safe_load((tmp_path / "kubeconfig").read_text())["users"][0]["user"]["auth-provider"]["config"]
    assert stored == issuer.user(issuer.fresh, **{"refresh-token": "twice"})["auth-provider"]["config"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"refresh-token": "used up"}, "auth-provider oidc at https://127.0.0.1:.*invalid_grant"),
        ({"refresh-token": None}, "Expected key refresh-token in user 'u'"),
        ({"idp-certificate-authority-data": None}, "(?i)certificate.verify.failed"),
        ({"idp-issuer-url": "https://127.0.0.1:9"}, "auth-provider oidc at https://127.0.0.1:9: .*refused"),
        ({"id-token": "no token"}, "auth-provider oidc .*: nothing to log in by"),
        ({"id-token": None}, "Expected key id-token"),
    ],
)
def test_an_id_token_that_cannot_be_renewed_is_no_login(
    tmp_path: Path, issuer: Issuer, more: dict[str, Any], said: str
) -> None:
    async def renew() -> None:
        async with issuer.serving():
            await Login(kubeconfig=str(kubeconfig(tmp_path, {}, issuer.user(id_token(1), **more))))()

    with pytest.raises(InvalidKubeconfig, match=said):
        asyncio.run(renew())
