"""An OpenID Connect provider on loopback: it asks nobody for a password, and says what it was told to say."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

CLIENT, SECRET = "hive-pages", "s:e/c ret"


class OpenIdProvider:
    """`claims` are those of whoever signs in, `changes` are made to ID tokens, `about` to its description.

    It gives refresh tokens where it `refreshes`, each good once, and ID tokens with them where it `identifies`.
    """

    def __init__(self) -> None:
        self.claims: dict[str, Any] = {"sub": "7", "groups": ["quality"]}
        self.changes: dict[str, Any] = {}
        self.about: dict[str, Any] = {}
        self.userinfo: dict[str, Any] = {}
        self.public = self.refreshes = False
        self.identifies = True
        self.refresh_token = ""
        self.asked: list[dict[str, str]] = []
        self.redeemed: list[dict[str, str]] = []
        self._codes: dict[str, dict[str, str]] = {}
        self.new_key("first")
        self.signs_with = self.key
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider._get(self)

            def do_POST(self) -> None:
                provider._post(self)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def new_key(self, kid: str) -> None:
        self.kid = self.signs_as = kid
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.signs_with = self.key

    def settings(self, **more: str) -> str:
        named = {"issuer": f'"{self.issuer}"', "client_id": f'"{CLIENT}"', "tenant": '"acme"'} | more
        lines = [f"{key} = {value}" for key, value in named.items()]
        return "\n[signin]\n" + "\n".join(lines) + "\n[signin.groups.quality]\ngroups = ['qa']\nroles = ['approver']\n"

    def _get(self, asked: BaseHTTPRequestHandler) -> None:
        url = urlsplit(asked.path)
        given = {name: values[0] for name, values in parse_qs(url.query).items()}
        if url.path == "/.well-known/openid-configuration":
            ends = {"authorization": "authorize", "token": "token", "userinfo": "me", "end_session": "leave"}
            described = {f"{name}_endpoint": f"{self.issuer}/{path}" for name, path in ends.items()}
            self._answer(asked, {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys", **described, **self.about})
        elif url.path == "/keys":
            public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
            self._answer(asked, {"keys": [public | {"kid": self.kid, "use": "sig", "alg": "RS256"}]})
        elif url.path == "/authorize":
            self.asked.append(given)
            code = f"code-{len(self.asked)}"
            self._codes[code] = given
            asked.send_response(302)
            back = urlencode({"code": code, "state": given["state"]})
            asked.send_header("Location", f"{given['redirect_uri']}?{back}")
            asked.end_headers()
        elif url.path == "/me" and asked.headers["Authorization"] == "Bearer access":
            self._answer(asked, self.userinfo)
        else:
            self._answer(asked, {"error": "not_found"}, 404)

    def _post(self, asked: BaseHTTPRequestHandler) -> None:
        body = asked.rfile.read(int(asked.headers["Content-Length"])).decode()
        form = {name: values[0] for name, values in parse_qs(body).items()}
        self.redeemed.append(form)
        if form.get("grant_type") == "refresh_token":
            self._refresh(asked, form)
            return
        begun = self._codes.pop(form.get("code", ""), None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        proven = {"code_challenge": challenge.rstrip(b"=").decode(), "redirect_uri": form.get("redirect_uri")}
        if begun is None or not self._is_client(asked, form) or not proven.items() <= begun.items():
            self._answer(asked, {"error": "invalid_grant"}, 400)
            return
        self._answer(asked, self._tokens(nonce=begun["nonce"]))

    def _refresh(self, asked: BaseHTTPRequestHandler, form: dict[str, str]) -> None:
        if not self._is_client(asked, form) or form["refresh_token"] != self.refresh_token:
            self._answer(asked, {"error": "invalid_grant"}, 400)
            return
        tokens = self._tokens()
        if not self.identifies:
            del tokens["id_token"]
        self._answer(asked, tokens)

    def _tokens(self, **more: str) -> dict[str, str]:
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 60, **more}
        claims |= self.claims | self.changes
        kept = {name: value for name, value in claims.items() if value is not None}
        token = jwt.encode(kept, self.signs_with, "RS256", headers={"kid": self.signs_as})
        tokens = {"token_type": "Bearer", "access_token": "access", "id_token": token}
        if self.refreshes:
            self.refresh_token = f"refresh-{secrets.token_hex(8)}"
            tokens["refresh_token"] = self.refresh_token
        return tokens

    def _is_client(self, asked: BaseHTTPRequestHandler, form: dict[str, str]) -> bool:
        if self.public:
            return form.get("client_id") == CLIENT and "Authorization" not in asked.headers
        pair = base64.b64decode(asked.headers.get("Authorization", "").removeprefix("Basic ")).decode()
        return [unquote(one) for one in pair.split(":")] == [CLIENT, SECRET]

    @staticmethod
    def _answer(asked: BaseHTTPRequestHandler, value: Any, status: int = 200) -> None:
        data = json.dumps(value).encode()
        asked.send_response(status)
        asked.send_header("Content-Type", "application/json")
        asked.send_header("Content-Length", str(len(data)))
        asked.end_headers()
        asked.wfile.write(data)


@contextmanager
def open_id_provider() -> Iterator[OpenIdProvider]:
    provider = OpenIdProvider()
    try:
        yield provider
    finally:
        provider.server.shutdown()
        provider.server.server_close()
