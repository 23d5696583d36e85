"""Good tokens name a principal; every other one is refused, and no error holds any of it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import stat
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from hive_agents import Workspace
from hive_agents.access import Principal, keys_of, local_user, mint, revoke, uses_local_key
from hive_agents.access.keys import local_key
from hive_agents.access.tokens import verify
from hive_agents.base.errors import HiveError
from hive_agents.base.files import atomic_write
from hive_agents.workspace.trusted import trust
from tests.listening import answering

DANA = Principal("acme", "dana", frozenset({"qa"}), frozenset({"reader", "approver"}))
SECRET = "s" * 40


def pems(key: Any) -> tuple[str, str]:
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return private, key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


RSA_PRIVATE, RSA_PUBLIC = pems(rsa.generate_private_key(65537, 2048))
RSA_SHORT, _ = pems(rsa.generate_private_key(65537, 1024))
EC_PRIVATE, EC_PUBLIC = pems(ec.generate_private_key(ec.SECP256R1()))
EC_384, _ = pems(ec.generate_private_key(ec.SECP384R1()))


def with_keys(workspace: Workspace, *keys: tuple[str, str, str]) -> Workspace:
    listed = "".join(f'[[access.keys]]\nkid = "{kid}"\nalg = "{alg}"\nsecret_ref = "{ref}"\n' for kid, alg, ref in keys)
    (workspace.root / "hive.toml").write_text(listed)
    trust(workspace)
    return Workspace(workspace.root)


@pytest.fixture
def hs256(text_workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("HIVE_K1", SECRET)
    return with_keys(text_workspace, ("k1", "HS256", "env:HIVE_K1"))


def claims(**changes: Any) -> dict[str, Any]:
    good = {
        "iss": "hive",
        "aud": "hive",
        "sub": "dana",
        "tenant": "acme",
        "groups": ["qa"],
        "roles": ["reader"],
        "iat": int(time.time()),
        "exp": int(time.time()) + 600,
        "jti": "t1",
    }
    return {key: value for key, value in (good | changes).items() if value is not ...}


def signed(alg: str = "HS256", key: Any = SECRET, header: Any = None, **changes: Any) -> str:
    """A token made by hand, so that its claims may have any type."""
    head = {"alg": alg, "typ": "JWT", "kid": "k1"} | (header or {})
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in (head, claims(**changes))]
    text = b".".join(parts)
    signature = hmac.new(key.encode(), text, hashlib.sha256).digest() if alg == "HS256" else b""
    return (text + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")).decode()


def reason(workspace: Workspace, token: Any) -> str:
    with pytest.raises(HiveError) as caught:
        verify(workspace, token)
    found = caught.value.diagnostics[0]
    assert (found.code, caught.value.exit_code) == ("HIVE-417", 2)
    assert caught.value.__cause__ is None
    for part in str(token).split("."):
        assert len(part) < 6 or part not in str(caught.value)
    return found.message


def test_a_minted_token_names_its_principal(text_workspace: Workspace) -> None:
    token = mint(text_workspace, DANA, 60)
    assert verify(text_workspace, token.token) == DANA
    assert token.token not in repr(token)
    assert set(token.to_json()) == {"token", "jti", "expires_at", "principal"}
    payload = jwt.decode(token.token, options={"verify_signature": False})
    own = {"iss", "aud", "sub", "tenant", "groups", "roles", "iat", "exp", "jti", "maker", "makers", "listed"}
    assert set(payload) == own
    assert payload["exp"] - payload["iat"] == 60


def test_a_token_names_who_made_it(text_workspace: Workspace) -> None:
    """The local user, where nobody else is named; an identity provider names none."""
    assert verify(text_workspace, mint(text_workspace, DANA).token).maker == local_user()
    made = verify(text_workspace, mint(text_workspace, DANA, maker=Principal("acme", "root")).token)
    assert (made.maker, made) == ("user:root", DANA)


def test_groups_and_roles_may_be_left_out(hs256: Workspace) -> None:
    assert verify(hs256, signed(groups=..., roles=...)) == Principal("acme", "dana")


BAD: list[tuple[dict[str, Any], str]] = [
    ({"exp": 1}, "has expired"),
    ({"exp": ...}, "lacks one of"),
    ({"exp": "4102444800"}, "exp is no time"),
    ({"exp": True}, "has expired"),
    ({"exp": float("inf")}, "not valid"),
    ({"exp": {}}, "not valid"),
    ({"exp": 10**400}, "exp is no time"),
    ({"nbf": int(time.time()) + 3600}, "not valid yet"),
    ({"iat": int(time.time()) + 3600}, "not valid yet"),
    ({"iss": ...}, "lacks one of"),
    ({"iss": "other"}, "another issuer"),
    ({"aud": ...}, "lacks one of"),
    ({"aud": "other"}, "another audience"),
    ({"aud": ["other"]}, "another audience"),
    ({"sub": ...}, "lacks one of"),
    ({"sub": ""}, "not what they must be"),
    ({"sub": 7}, "not valid"),
    ({"tenant": ...}, "lacks one of"),
    ({"tenant": ""}, "not what they must be"),
    ({"tenant": ["acme"]}, "not what they must be"),
    ({"tenant": "local"}, "reserved"),
    ({"groups": "qa"}, "no lists"),
    ({"groups": None}, "no lists"),
    ({"groups": [1]}, "not what they must be"),
    ({"groups": [["qa"]]}, "not what they must be"),
    ({"roles": "admin"}, "no lists"),
    ({"roles": ["root"]}, "not what they must be"),
    ({"jti": 5}, "not valid"),
    ({"jti": " t1"}, "jti"),
    ({"makers": 5}, "makers"),
    ({"groups": ["x" * 200] * 60}, "no token"),
]


@pytest.mark.parametrize(("changes", "why"), BAD)
def test_a_token_with_wrong_claims_is_refused(hs256: Workspace, changes: dict[str, Any], why: str) -> None:
    assert why in reason(hs256, signed(**changes))


FORGED: list[tuple[Any, str]] = [
    ("", "no token"),
    (None, "no token"),
    ("a.b", "no token"),
    ("a.b.c", "no token"),
    ("é.b.c", "no token"),
    ("x" * 10_000, "no token"),
    (signed(key="t" * 40), "signature is wrong"),
    (signed(alg="none"), "algorithm is not that of the key"),
    (signed(alg="none", header={"alg": "NONE"}), "not"),
    (signed(header={"kid": "k2"}), "no key here"),
    (signed(header={"kid": ["k1"]}), "no"),
    (signed(header={"kid": "../../etc/passwd"}), "no key here"),
    (signed(header={"jwk": {"kty": "oct", "k": "eHh4"}}, key="x" * 40), "signature is wrong"),
    (signed().rsplit(".", 1)[0] + ".", "signature is wrong"),
    (signed() + "x" * 4, "no"),
    (signed(header={"crit": ["x-other"], "x-other": 1}), "no token"),
    (jwt.encode(claims(), SECRET + SECRET, "HS512", {"kid": "k1"}), "algorithm is not that of the key"),
    (jwt.encode(claims(), SECRET + SECRET, "HS384", {"kid": "k1"}), "algorithm is not that of the key"),
]


@pytest.mark.parametrize(("token", "why"), FORGED)
def test_a_forged_token_is_refused(hs256: Workspace, token: Any, why: str) -> None:
    assert why in reason(hs256, token)


def test_a_changed_payload_breaks_the_signature(hs256: Workspace) -> None:
    head, _, signature = signed().split(".")
    _, other, _ = signed(roles=["admin"]).split(".")
    assert "signature is wrong" in reason(hs256, f"{head}.{other}.{signature}")


@pytest.mark.parametrize(
    ("alg", "private", "public"), [("RS256", RSA_PRIVATE, RSA_PUBLIC), ("ES256", EC_PRIVATE, EC_PUBLIC)]
)
def test_a_key_pair_signs_in_one_place_and_checks_in_another(
    text_workspace: Workspace, monkeypatch: pytest.MonkeyPatch, alg: str, private: str, public: str
) -> None:
    place = with_keys(text_workspace, ("k1", alg, "env:HIVE_K1"))
    monkeypatch.setenv("HIVE_K1", private)
    token = mint(place, DANA).token
    assert verify(place, token) == DANA
    monkeypatch.setenv("HIVE_K1", public)
    assert verify(place, token) == DANA
    with pytest.raises(HiveError, match="can't sign"):
        mint(place, DANA)


@pytest.mark.parametrize(("alg", "public"), [("RS256", RSA_PUBLIC), ("ES256", EC_PUBLIC)])
def test_a_public_key_is_no_shared_secret(
    text_workspace: Workspace, monkeypatch: pytest.MonkeyPatch, alg: str, public: str
) -> None:
    """The classic confusion: HS256, signed with the text of the public key."""
    monkeypatch.setenv("HIVE_K1", public)
    confused = signed(key=public)
    assert "algorithm is not that of the key" in reason(with_keys(text_workspace, ("k1", alg, "env:HIVE_K1")), confused)
    with pytest.raises(HiveError, match="no secret for HS256"):
        verify(with_keys(text_workspace, ("k1", "HS256", "env:HIVE_K1")), confused)


@pytest.mark.parametrize(
    ("alg", "secret"),
    [
        ("HS256", "short"),
        ("HS256", "s" * 31),
        ("HS256", ""),
        ("HS256", None),
        ("RS256", SECRET),
        ("RS256", EC_PRIVATE),
        ("RS256", RSA_SHORT),
        ("ES256", RSA_PRIVATE),
        ("ES256", EC_384),
        ("RS256", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"),
    ],
)
def test_an_unfit_key_signs_and_checks_nothing(
    text_workspace: Workspace, monkeypatch: pytest.MonkeyPatch, alg: str, secret: str | None
) -> None:
    place = with_keys(text_workspace, ("k1", alg, "env:HIVE_K1"))
    monkeypatch.delenv("HIVE_K1", raising=False)
    if secret is not None:
        monkeypatch.setenv("HIVE_K1", secret)
    for attempt in (lambda: mint(place, DANA), lambda: verify(place, signed())):
        with pytest.raises(HiveError) as caught:
            attempt()
        assert (caught.value.diagnostics[0].code, caught.value.exit_code) == ("HIVE-417", 3)
        assert not secret or secret not in str(caught.value)


def test_the_token_of_one_key_is_not_checked_with_another(
    text_workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIVE_K1", SECRET)
    monkeypatch.setenv("HIVE_K2", "t" * 40)
    place = with_keys(text_workspace, ("k2", "HS256", "env:HIVE_K2"), ("k1", "HS256", "env:HIVE_K1"))
    assert verify(place, signed()) == Principal("acme", "dana", frozenset({"qa"}))
    assert "signature is wrong" in reason(place, signed(header={"kid": "k2"}))
    assert "no key here" in reason(place, jwt.encode(claims(), SECRET, "HS256"))


def test_a_key_that_cannot_be_had_stops_only_its_own_tokens(
    text_workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIVE_K1", SECRET)
    place = with_keys(text_workspace, ("k1", "HS256", "env:HIVE_K1"), ("k2", "HS256", "env:NOT_SET"))
    assert verify(place, mint(place, DANA).token) == DANA


@pytest.mark.parametrize(
    ("ref", "code"),
    [
        ("credential:jwt", "HIVE-417"),
        ("plain", "HIVE-409"),
        ("env:", "HIVE-409"),
        ("keyring:nothing", "HIVE-409"),
        ("keyring:hive/jwt", "HIVE-411"),
    ],
)
def test_a_reference_that_leads_nowhere_says_what_works(text_workspace: Workspace, ref: str, code: str) -> None:
    with pytest.raises(HiveError) as caught:
        mint(with_keys(text_workspace, ("k1", "HS256", ref)), DANA)
    assert caught.value.diagnostics[0].code == code


class Secrets(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        known = asked["SecretId"] == "jwt"
        body = json.dumps({"Name": "jwt", "SecretString": SECRET} if known else {"__type": "ResourceNotFoundException"})
        self.send_response(200 if known else 400)
        self.send_header("content-type", "application/x-amz-json-1.1")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with answering(ThreadingHTTPServer(("127.0.0.1", 0), Secrets)) as url:
        for name, value in {
            "AWS_ENDPOINT_URL_SECRETS_MANAGER": url,
            "AWS_ACCESS_KEY_ID": "x",
            "AWS_SECRET_ACCESS_KEY": "y",
            "AWS_DEFAULT_REGION": "eu-central-1",
        }.items():
            monkeypatch.setenv(name, value)
        yield


@pytest.mark.usefixtures("aws")
def test_a_secret_comes_from_aws(text_workspace: Workspace) -> None:
    place = with_keys(text_workspace, ("k1", "HS256", "aws:jwt"), ("k2", "HS256", "aws:gone"))
    assert verify(place, signed()).user == "dana"
    with pytest.raises(HiveError, match=r"ResourceNotFoundException|ClientError"):
        verify(place, signed(header={"kid": "k2"}))


def test_two_keys_of_one_kid_are_an_error(text_workspace: Workspace) -> None:
    with pytest.raises(HiveError, match="HIVE-111"):
        keys_of(with_keys(text_workspace, ("k1", "HS256", "env:A"), ("k1", "RS256", "env:B")))


def test_a_revoked_token_is_refused_and_no_other(text_workspace: Workspace) -> None:
    first, second = mint(text_workspace, DANA), mint(text_workspace, DANA)
    revoke(text_workspace, first.jti)
    revoke(text_workspace, first.jti)
    assert "was revoked" in reason(text_workspace, first.token)
    assert verify(text_workspace, second.token) == DANA


def test_a_token_is_ended_for_a_tenant_where_it_is_of_that_tenant(text_workspace: Workspace) -> None:
    token = mint(text_workspace, DANA)
    revoke(text_workspace, token.jti, tenant="globex")
    assert verify(text_workspace, token.token) == DANA
    revoke(text_workspace, token.jti, tenant=DANA.tenant)
    assert "was revoked" in reason(text_workspace, token.token)


def test_a_deny_list_that_cannot_be_read_refuses_every_token(text_workspace: Workspace) -> None:
    token = mint(text_workspace, DANA).token
    (text_workspace.state / "revoked_tokens").write_bytes(b"\xff\xfe")
    with pytest.raises(HiveError, match="revoked tokens cannot be read"):
        verify(text_workspace, token)


@pytest.mark.parametrize("jti", ["", "a\nb", " a"])
def test_what_is_no_id_is_not_revoked(text_workspace: Workspace, jti: str) -> None:
    with pytest.raises(HiveError, match="HIVE-409"):
        revoke(text_workspace, jti)


def test_the_local_key_is_made_once_and_is_its_owners(text_workspace: Workspace) -> None:
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda _: local_key(Workspace(text_workspace.root)), range(16)))
    assert len(keys) == 1
    assert len(keys.pop()) == 32
    assert stat.S_IMODE((text_workspace.state / "local.key").stat().st_mode) == 0o600


@pytest.mark.parametrize("content", ["", "00", "zz" * 32])
def test_a_damaged_local_key_signs_nothing(text_workspace: Workspace, content: str) -> None:
    (text_workspace.state / "local.key").write_text(content)
    with pytest.raises(HiveError, match="HIVE-417"):
        mint(text_workspace, DANA)


def test_the_local_key_is_for_the_owner_alone(text_workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: text_workspace.state.stat().st_uid + 1)
    with pytest.raises(HiveError, match="only the workspace's owner"):
        mint(text_workspace, DANA)


def test_the_local_key_serves_only_while_there_are_no_others(hs256: Workspace, text_workspace: Workspace) -> None:
    assert not uses_local_key(hs256)
    (text_workspace.root / "hive.toml").unlink()
    local = Workspace(text_workspace.root)
    assert uses_local_key(local)
    assert "no key here" in reason(hs256, mint(local, DANA).token)


@pytest.mark.parametrize("ttl", [0, -1, 367 * 86_400, 10**9])
def test_a_lifetime_has_bounds(text_workspace: Workspace, ttl: int) -> None:
    with pytest.raises(HiveError, match="HIVE-409"):
        mint(text_workspace, DANA, ttl)


def test_no_token_names_the_owner_of_open_mode(text_workspace: Workspace) -> None:
    with pytest.raises(HiveError, match="HIVE-409"):
        mint(text_workspace, Principal("local", "dana"))


@pytest.mark.parametrize(("ago", "good"), [(2, True), (20, False), (45, False), (300, False)])
def test_clocks_may_differ_by_ten_seconds_and_no_more(hs256: Workspace, ago: int, good: bool) -> None:
    token = signed(exp=int(time.time()) - ago)
    if good:
        assert verify(hs256, token) == DANA or verify(hs256, token).user == "dana"
    else:
        assert "has expired" in reason(hs256, token)


def test_a_token_that_was_good_before_ends_all_the_same(hs256: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    text = signed(exp=int(time.time()) - 5)
    assert verify(hs256, text).user == "dana"
    assert verify(hs256, text).user == "dana"
    later = time.time() + 6
    monkeypatch.setattr(time, "time", lambda: later)
    with pytest.raises(HiveError, match="it has expired"):
        verify(hs256, text)


def test_a_token_that_was_good_under_another_key_or_for_another_audience_is_looked_at_anew(
    hs256: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = signed()
    assert verify(hs256, text).user == "dana"
    toml = hs256.root / "hive.toml"
    toml.write_text(toml.read_text().replace("[[access", '[access]\naudience = "other"\n[[access', 1))
    trust(hs256)
    with pytest.raises(HiveError, match="another audience"):
        verify(Workspace(hs256.root), text)
    monkeypatch.setenv("HIVE_K1", "t" * 40)
    with pytest.raises(HiveError, match="signature is wrong"):
        verify(hs256, text)


def test_another_local_key_counts_at_once(text_workspace: Workspace) -> None:
    """It is read once, until its file or this machine's key is another one."""
    place = text_workspace
    token, first = mint(place, DANA).token, local_key(place)
    path = place.state / "local.key"
    old = path.read_bytes()
    atomic_write(path, b"ab" * 32 + b"\n", mode=0o600)
    assert local_key(place) != first
    with pytest.raises(HiveError, match="HIVE-417"):
        verify(place, token)
    atomic_write(path, old, mode=0o600)
    assert (local_key(place), verify(place, token)) == (first, DANA)
    path.unlink()
    assert local_key(place) != first
