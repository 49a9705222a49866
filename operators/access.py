"""How the API server is reached, and under which identity; `Login` finds out."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import ssl
import sys
import tempfile
from pathlib import Path

import msgspec


class InvalidKubeconfig(Exception):
    """The kubeconfig, or the ServiceAccount's directory, cannot be used; the message says what to do."""


class Access(msgspec.Struct, kw_only=True, frozen=True):
    """How to reach the API server, and under which identity."""

    url: str
    authority: str = ""
    """PEM."""
    certificate: str = ""
    """PEM, as is `key`."""
    key: str = ""
    verify: bool = True
    server_name: str | None = None
    """Name in the server's certificate, if not the URL's."""
    proxy: str | None = None
    authorization: str = ""
    """The header."""
    token_file: Path | None = None
    """Read for each call, because kubelets write the file anew."""
    expires: float | None = None
    """When `authorization` or `certificate` end, in seconds since 1970."""

    def headers(self) -> dict[str, str]:
        """The Authorization header, if the identity is a token. Raises ValueError for an unusable token file."""
        authorization = self.authorization
        if self.token_file is not None:
            try:
                token = self.token_file.read_text(encoding="ascii").strip()
            except (OSError, ValueError) as error:
                raise ValueError(f"the token file {self.token_file} cannot be read: {error}") from None
            if not token.isprintable() or not token or " " in token:
                raise ValueError(f"the token file {self.token_file} holds no token (one word of text)")
            authorization = f"Bearer {token}"
        return {"Authorization": authorization} if authorization else {}

    def tls(self) -> ssl.SSLContext | None:
        """None for plain HTTP. Raises InvalidKubeconfig for anything but PEM."""
        if not self.url.startswith("https:"):
            return None
        try:
            tls = ssl.create_default_context(cadata=self.authority or None)
        except (ssl.SSLError, ValueError) as error:
            raise InvalidKubeconfig(f"certificate-authority holds no PEM certificate: {error}") from None
        if not self.verify:
            tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        if self.certificate or self.key:
            self._present(tls)
        return tls

    def is_reached_as(self, other: Access) -> bool:
        """Whether connections made for `other` can be used here: at most the token differs."""
        return (
            msgspec.structs.replace(
                self, authorization=other.authorization, token_file=other.token_file, expires=other.expires
            )
            == other
        )

    def _present(self, tls: ssl.SSLContext) -> None:
        if not self.certificate or not self.key:
            raise InvalidKubeconfig("client-certificate and client-key are both needed, or neither")
        with tempfile.TemporaryDirectory() as directory:  # ssl reads files only
            pair = Path(directory) / "pair.pem"
            pair.touch(0o600)
            pair.write_text(f"{self.certificate}\n{self.key}")
            try:
                tls.load_cert_chain(str(pair), password=_no_password)
            except (ssl.SSLError, ValueError) as error:
                raise InvalidKubeconfig(f"client-certificate and client-key are no PEM pair: {error}") from None


def _no_password() -> str:
    raise ValueError("the key is encrypted")


class Login(msgspec.Struct, kw_only=True, frozen=True):
    """Runs `operators.login`, and ends the process with all its children after `timeout_s`."""

    kubeconfig: str | None = None
    """Files as in KUBECONFIG; None: the files of that variable, else the pod's ServiceAccount."""
    context: str | None = None
    """None: the current context."""
    timeout_s: float = 60

    async def __call__(self) -> Access:
        """Raises InvalidKubeconfig."""
        options = [
            *(["--context", self.context] if self.context else []),
            *([self.kubeconfig] if self.kubeconfig else []),
        ]
        # A session of its own, so that no plug-in asks on our terminal, and all of them can be ended.
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "operators.login", *options),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            limit=16 << 20,
            start_new_session=True,
        )
        assert process.stdout is not None
        line = f"{self.kubeconfig or 'KUBECONFIG'}: reading it".encode()
        try:
            async with asyncio.timeout(self.timeout_s):
                async for line in process.stdout:  # noqa: B007 - the last is the answer
                    pass
                await process.wait()
        except TimeoutError:
            said = line.decode(errors="replace").strip()
            raise InvalidKubeconfig(f"{said}: no answer within {self.timeout_s:g} s") from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if process.returncode:
            raise InvalidKubeconfig(line.decode(errors="replace").strip())
        return msgspec.json.decode(line, type=Access, dec_hook=lambda kind, text: kind(text))
