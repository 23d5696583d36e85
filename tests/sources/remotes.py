"""Real sources on this machine, one for each kind: files are put, removed, renamed and cut off in all in one way."""

from __future__ import annotations

import hashlib
import imaplib
import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import boto3
import pytest

from tests.ports import lasting_port


class Remote(ABC):
    """A source that changes. `settings` are those of `[sources.NAME]`."""

    kind = ""
    access = False
    """Whether the source itself says who may read a file."""
    unchanging = False
    """Whether a change of a file is another file, and the one before is gone."""
    denies = False
    """Whether the source can deny its reader what is below `apart/`."""

    def __init__(self, folder: Path) -> None:
        self.folder = self.root = folder
        self.settings: dict[str, Any] = {"kind": self.kind}
        self.asks: dict[str, Any] = {}

    def prepare(self, root: Path) -> None:  # noqa: B027  # most sources need nothing
        """Write into a new workspace what the source needs there."""

    @abstractmethod
    def put(self, name: str, text: str) -> None: ...

    @abstractmethod
    def remove(self, name: str) -> None: ...

    @abstractmethod
    def rename(self, old: str, new: str) -> None: ...

    def permit(self, name: str, *, staff: bool) -> None:
        """Let the group staff read a file, or its owner alone, where the source says who may."""
        pytest.fail(f"{self.kind} says nothing of who may read")

    def deny(self, denied: bool) -> None:
        """Deny the reader that the source has what is below `apart/`, or give it to it again."""
        pytest.fail(f"{self.kind} denies nothing")

    @abstractmethod
    def cut(self, after: int) -> AbstractContextManager[None]:
        """Let the source break off in a run, where it is a server once it has answered so many bytes."""

    def close(self) -> None:  # noqa: B027  # most have nothing to close
        pass


class Folder(Remote):
    kind = "folder"
    access = True

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.root = folder / "source"
        self.root.mkdir()
        self.settings |= {"url": str(self.root)}
        self.asks = {"access": "posix", "subjects": {"group:root": ["group:staff"]}}

    def put(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def remove(self, name: str) -> None:
        (self.root / name).unlink()

    def rename(self, old: str, new: str) -> None:
        (self.root / old).rename(self.root / new)

    def permit(self, name: str, *, staff: bool) -> None:
        (self.root / name).chmod(0o640 if staff else 0o600)

    @contextmanager
    def cut(self, after: int) -> Iterator[None]:
        self.root.rename(self.folder / "away")
        yield
        (self.folder / "away").rename(self.root)


class Git(Remote):
    kind = "git"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.root = folder / "source"
        self.root.mkdir()
        self.settings |= {"url": str(self.root), "options": {"rev": "main"}}
        self._git("init", "--quiet", "--initial-branch=main")

    def _git(self, *arguments: str) -> None:
        author = ["-c", "user.name=Dana", "-c", "user.email=dana@example.org"]
        subprocess.run(["git", "-C", str(self.root), *author, *arguments], check=True, capture_output=True)

    def _commit(self) -> None:
        self._git("add", "--all")
        self._git("commit", "--quiet", "--allow-empty", "--message=a change")

    def put(self, name: str, text: str) -> None:
        (self.root / name).write_text(text)
        self._commit()

    def remove(self, name: str) -> None:
        (self.root / name).unlink()
        self._commit()

    def rename(self, old: str, new: str) -> None:
        (self.root / old).rename(self.root / new)
        self._commit()

    @contextmanager
    def cut(self, after: int) -> Iterator[None]:
        (self.root / ".git").rename(self.folder / "away")
        yield
        (self.folder / "away").rename(self.root / ".git")


class Cut:
    """A way to a server on loopback that can be cut: from then on only so many bytes come back, in all connections."""

    def __init__(self, port: int) -> None:
        self._port, self.left = port, 1 << 60
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(("127.0.0.1", self._port))
                for each in ((client, server, False), (server, client, True)):
                    threading.Thread(target=self._pump, args=each, daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, counted: bool) -> None:
        with suppress(OSError):
            while data := source.recv(512):
                if counted:
                    self.left -= len(data)
                    if self.left < 0:
                        break
                target.sendall(data)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def close(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()


class Served(Remote):
    """A server whose files are in a folder of this machine."""

    def __init__(self, folder: Path, root: Path | None = None) -> None:
        super().__init__(folder)
        self.root = root or folder / "served"
        self.root.mkdir()
        self.way = Cut(self.serve())

    def serve(self) -> int:
        """Start the server and return its port."""
        pytest.fail(f"{self.kind} is no server")

    def put(self, name: str, text: str) -> None:
        (self.root / name).parent.mkdir(exist_ok=True)
        (self.root / name).write_text(text)

    def remove(self, name: str) -> None:
        (self.root / name).unlink()

    def rename(self, old: str, new: str) -> None:
        (self.root / old).rename(self.root / new)

    @contextmanager
    def cut(self, after: int) -> Iterator[None]:
        self.way.left = after
        yield
        self.way.left = 1 << 60

    def close(self) -> None:
        self.way.close()


class S3(Served):
    """moto, which asks for signatures and for what the policies of the reader allow."""

    kind = "s3"
    access = True
    denies = True

    def serve(self) -> int:
        from moto.server import ThreadedMotoServer

        self._server = ThreadedMotoServer(port=0, verbose=False)
        self._server.start()
        _, port = self._server.get_host_and_port()
        self._bucket = f"office-{port}"  # moto's buckets and users are the process's
        self._asks_nothing(True)
        users = self._asking("iam", "key", "secret")
        for name in ("writer", "reader"):
            users.create_user(UserName=f"{name}-{port}")
            key = users.create_access_key(UserName=f"{name}-{port}")["AccessKey"]
            login = key["AccessKeyId"], key["SecretAccessKey"]
            if name == "writer":
                self._allow(users, f"writer-{port}")
                self._users, self._client = self._asking("iam", *login), self._asking("s3", *login)
            else:
                os.environ["A40_S3"] = ":".join(login)
        users.close()
        self._reader = f"reader-{port}"
        self._client.create_bucket(Bucket=self._bucket)
        self._allow(self._users, self._reader)
        self._asks_nothing(False)
        return int(port)

    @staticmethod
    def _asks_nothing(nothing: bool) -> None:
        from moto import settings
        from moto.core.authorization import ActionAuthenticatorMixin

        settings.INITIAL_NO_AUTH_ACTION_COUNT = float("inf") if nothing else 0
        ActionAuthenticatorMixin.request_count = 0

    def _asking(self, service: Any, id: str, secret: str) -> Any:
        address = "http://{}:{}".format(*self._server.get_host_and_port())
        login = {"aws_access_key_id": id, "aws_secret_access_key": secret}
        return boto3.client(service, endpoint_url=address, region_name="us-east-1", **login)

    @staticmethod
    def _allow(users: Any, name: str, *denied: str) -> None:
        allowed = {"Effect": "Allow", "Action": "*", "Resource": "*"}
        told = [allowed, *({"Effect": "Deny", "Action": "s3:GetObject*", "Resource": each} for each in denied)]
        document = json.dumps({"Version": "2012-10-17", "Statement": told})
        users.put_user_policy(UserName=name, PolicyName="all", PolicyDocument=document)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        options = {"endpoint": f"http://127.0.0.1:{self.way.port}"}
        self.settings |= {"url": f"s3://{self._bucket}/docs", "secret_ref": "env:A40_S3", "options": options}
        staff = {"group:http://acs.amazonaws.com/groups/global/AuthenticatedUsers": ["group:staff"]}
        self.asks = {**options, "access": "acl", "subjects": staff}

    def put(self, name: str, text: str) -> None:
        self._client.put_object(Bucket=self._bucket, Key=f"docs/{name}", Body=text.encode())

    def remove(self, name: str) -> None:
        self._client.delete_object(Bucket=self._bucket, Key=f"docs/{name}")

    def rename(self, old: str, new: str) -> None:
        self._client.copy_object(Bucket=self._bucket, Key=f"docs/{new}", CopySource=f"{self._bucket}/docs/{old}")
        self.remove(old)

    def permit(self, name: str, *, staff: bool) -> None:
        acl: Any = "authenticated-read" if staff else "private"
        self._client.put_object_acl(Bucket=self._bucket, Key=f"docs/{name}", ACL=acl)

    def deny(self, denied: bool) -> None:
        self._allow(self._users, self._reader, *([f"arn:aws:s3:::{self._bucket}/docs/apart/*"] if denied else []))

    def close(self) -> None:
        super().close()
        self._asks_nothing(True)
        for each in (self._client, self._users):
            each.close()
        self._server.stop()


class Web(Served):
    """A site with a sitemap, ETags and answers of 304."""

    kind = "web"
    denies = True
    denied = False

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        host = f"127.0.0.1:{self.way.port}"
        options = {"sitemap": "/sitemap.xml", "seconds": 0.0, "private_hosts": [host]}
        self.settings |= {"url": f"http://{host}/", "options": options}

    def serve(self) -> int:
        root, site = self.root, self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path, body = root / self.path.lstrip("/"), None
                if site.denied and self.path.startswith("/apart/"):
                    return self.send_error(403)
                if self.path == "/sitemap.xml":
                    host, files = self.headers["host"], sorted(root.rglob("*.*"))
                    names = [one.relative_to(root).as_posix() for one in files]
                    body = f"<urlset>{''.join(f'<loc>http://{host}/{name}</loc>' for name in names)}</urlset>".encode()
                elif path.is_file():
                    body = path.read_bytes()
                etag = f'"{hashlib.sha256(body or b"").hexdigest()[:12]}"'
                unchanged = body is not None and self.headers.get("if-none-match") == etag
                self.send_response(304 if unchanged else 404 if body is None else 200)
                self.send_header("etag", etag)
                self.send_header("content-type", "text/markdown")
                self.send_header("content-length", str(0 if unchanged else len(body or b"")))
                self.end_headers()
                if body is not None and not unchanged:
                    self.wfile.write(body)
                return None

            def log_message(self, *arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self._server.server_port

    def deny(self, denied: bool) -> None:
        self.denied = denied

    def close(self) -> None:
        super().close()
        self._server.shutdown()
        self._server.server_close()


class WebDav(Served):
    """wsgidav, behind what denies requests as a company's proxy does."""

    kind = "webdav"
    denies = True
    denied = False

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        os.environ["A40_DAV"] = "dana:a-secret-of-dav"
        url = f"http://127.0.0.1:{self.way.port}/"
        self.settings |= {"url": url, "secret_ref": "env:A40_DAV", "options": {"tls": False}}

    def serve(self) -> int:
        from wsgidav.wsgidav_app import WsgiDAVApp

        class Threaded(ThreadingMixIn, WSGIServer):
            daemon_threads = True

        class Quiet(WSGIRequestHandler):
            def log_message(self, *arguments: Any) -> None:
                pass

        users = {"*": {"dana": {"password": "a-secret-of-dav"}}}
        config = {"provider_mapping": {"/": str(self.root)}, "simple_dc": {"user_mapping": users}, "verbose": 0}
        app = WsgiDAVApp(config | {"logging": {"enable": False}, "lock_storage": None, "property_manager": None})

        def allowed(environ: dict[str, Any], start: Any) -> Any:
            if self.denied and environ["PATH_INFO"].startswith("/apart"):
                start("403 Forbidden", [("content-length", "0")])
                return [b""]
            return app(environ, start)

        self._server = make_server("127.0.0.1", 0, allowed, Threaded, Quiet)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self._server.server_port

    def deny(self, denied: bool) -> None:
        self.denied = denied

    def close(self) -> None:
        super().close()
        self._server.shutdown()
        self._server.server_close()


def debian(program: str) -> str:
    """Return the path of a server's program; skip where it isn't installed, or this isn't root, who may start it."""
    found = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None or os.geteuid() != 0:
        pytest.skip(f"{program} isn't installed, or may not be started")
    return found


class Sftp(Served):
    """Debian's sshd, and a reader who isn't root, so that modes hold."""

    kind = "sftp"
    access = True
    denies = True

    def __init__(self, folder: Path) -> None:
        self._program = debian("sshd")
        self._reader = pwd.getpwnam("nobody")
        self.home = Path(tempfile.mkdtemp(prefix="hive-sftp-"))  # whose parents the reader may enter
        self.home.chmod(0o755)
        super().__init__(folder, self.home / "served")
        known, key = folder / "known", (self.home / "host.pub").read_text().split()[:2]
        known.write_text(f"[127.0.0.1]:{self.way.port} {' '.join(key)}\n")
        options = {"known_hosts": str(known)}
        url = f"sftp://nobody@127.0.0.1:{self.way.port}{self.root}"
        self.settings |= {"url": url, "secret_ref": "env:A40_SFTP", "options": options}
        self.asks = {**options, "access": "posix", "subjects": {f"group:{self._reader.pw_gid}": ["group:staff"]}}

    def serve(self) -> int:
        home = self.home
        for name in ("host", "client"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(home / name)]
            subprocess.run(command, check=True)
        self._port = lasting_port()
        lines = [f"Port {self._port}", "ListenAddress 127.0.0.1", f"HostKey {home / 'host'}", "UsePAM no"]
        lines += [f"AuthorizedKeysFile {home / 'client.pub'}", "StrictModes no", f"PidFile {home / 'pid'}"]
        lines += ["Subsystem sftp internal-sftp", "ForceCommand internal-sftp"]
        (home / "config").write_text("\n".join(lines) + "\n")
        Path("/run/sshd").mkdir(exist_ok=True)
        self._process = subprocess.Popen([self._program, "-D", "-f", str(home / "config"), "-E", str(home / "log")])
        waited(self._port)
        os.environ["A40_SFTP"] = (home / "client").read_text()
        return self._port

    def put(self, name: str, text: str) -> None:
        super().put(name, text)
        for path in {self.root / name, (self.root / name).parent} - {self.root}:
            os.chown(path, self._reader.pw_uid, self._reader.pw_gid)

    def permit(self, name: str, *, staff: bool) -> None:
        (self.root / name).chmod(0o640 if staff else 0o600)

    def deny(self, denied: bool) -> None:
        (self.root / "apart").chmod(0o000 if denied else 0o755)

    def close(self) -> None:
        super().close()
        self._process.terminate()
        self._process.wait()
        shutil.rmtree(self.home)


class Imap(Served):
    """dovecot; a mail never changes, so that a change is another mail."""

    kind = "imap"
    unchanging = True
    denies = True

    def serve(self) -> int:
        program = debian("dovecot")
        self._port = lasting_port()
        os.environ["A40_IMAP"] = "dana:a-secret-of-imap"
        home = Path(tempfile.mkdtemp(prefix="hive-imap-"))
        home.chmod(0o755)
        (home / "users").write_text("dana:{PLAIN}a-secret-of-imap::::::\n")
        mail = home / "mail"
        mail.mkdir()
        shutil.chown(mail, "mail", "mail")
        self._home, self._config = home, home / "dovecot.conf"
        self._config.write_text(
            f"base_dir = {home}/run\nstate_dir = {home}/run\nlog_path = {home}/log\nprotocols = imap\nssl = no\n"
            f"disable_plaintext_auth = no\nlisten = 127.0.0.1\nmail_location = maildir:{mail}/%u\n"
            f"first_valid_uid = 1\nfirst_valid_gid = 1\npassdb {{\n driver = passwd-file\n args = {home}/users\n}}\n"
            f"userdb {{\n driver = static\n args = uid=mail gid=mail home={mail}/%u\n}}\n"
            f"service imap-login {{\n inet_listener imap {{\n port = {self._port}\n }}\n"
            f" inet_listener imaps {{\n port = 0\n }}\n}}\nnamespace inbox {{\n inbox = yes\n}}\n"
        )
        self._process = subprocess.Popen([program, "-F", "-c", str(self._config)])
        waited(self._port)
        self._mails = imaplib.IMAP4("127.0.0.1", self._port, timeout=30)
        self._mails.login("dana", "a-secret-of-imap")
        self._mails.create("Other")
        return self._port

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        options = {"folders": ["INBOX", "Other"], "tls": False}
        url = f"imap://127.0.0.1:{self.way.port}"
        self.settings |= {"url": url, "secret_ref": "env:A40_IMAP", "options": options}

    def put(self, name: str, text: str) -> None:
        folder = "Other" if name.startswith("apart/") else "INBOX"
        if self._found(name, folder):
            self.remove(name, folder)
        body = text.replace("\n", "\r\n")
        mail = f"From: dana@example.org\r\nSubject: {name}\r\nMessage-ID: <{uuid.uuid4()}@x>\r\n\r\n{body}"
        self._mails.append(folder, "", imaplib.Time2Internaldate(0), mail.encode())

    def _found(self, name: str, folder: str = "INBOX") -> bytes:
        self._mails.select(folder)
        found: bytes = self._mails.uid("SEARCH", "SUBJECT", f'"{name}"')[1][0]
        return found

    def remove(self, name: str, folder: str = "INBOX") -> None:
        self._mails.uid("STORE", self._found(name, folder).decode(), "+FLAGS", "(\\Deleted)")
        self._mails.expunge()

    def rename(self, old: str, new: str) -> None:
        self._mails.uid("COPY", self._found(old).decode(), "Other")
        self.remove(old)

    def deny(self, denied: bool) -> None:
        (self._home / "mail" / "dana" / ".Other").chmod(0o000 if denied else 0o700)

    def close(self) -> None:
        super().close()
        with suppress(OSError, imaplib.IMAP4.error):
            self._mails.logout()
        self._process.terminate()
        self._process.wait()
        shutil.rmtree(self._home)


class Loader(Served):
    """A loader in a file of the workspace, which reads a folder."""

    kind = "loader"
    FILE = """
from pathlib import Path
from langchain_core.document_loaders import BaseLoader
from langchain_core.documents import Document

class Files(BaseLoader):
    def __init__(self, folder, key):
        self.folder, self.key = Path(folder), key

    def lazy_load(self):
        if self.key != "a-secret-of-a-loader":
            raise ValueError(f"wrong key {self.key}")
        for number, path in enumerate(sorted(self.folder.glob("*.md"))):
            if number == 2 and (self.folder / "cut").exists():
                raise OSError("the connection broke off")
            readers = ["staff"] if path.stat().st_mode & 0o040 else []
            yield Document(path.read_text(), metadata={"source": path.stem, "readers": readers})
"""
    access = True

    def __init__(self, folder: Path) -> None:
        Remote.__init__(self, folder)
        self.root = folder / "served"
        self.root.mkdir()
        os.environ["A40_LOADER"] = "a-secret-of-a-loader"
        options = {"arguments": {"folder": str(self.root)}, "secret_argument": "key"}
        self.settings |= {"url": "loaders/files.py:Files", "secret_ref": "env:A40_LOADER", "options": options}
        self.asks = {**options, "access_key": "readers", "subjects": {"staff": ["group:staff"]}}

    def prepare(self, root: Path) -> None:
        (root / "loaders").mkdir()
        (root / "loaders" / "files.py").write_text(self.FILE)

    def permit(self, name: str, *, staff: bool) -> None:
        (self.root / name).chmod(0o640 if staff else 0o600)

    @contextmanager
    def cut(self, after: int) -> Iterator[None]:
        (self.root / "cut").touch()
        yield
        (self.root / "cut").unlink()

    def close(self) -> None:
        pass


class Mcp(Loader):
    """A server over stdio whose resources are the files of a folder; it dies where it is cut."""

    kind = "mcp"
    access = False
    FILE = """
# By hand, for the SDK takes seconds to start.
import json, os, sys
from pathlib import Path

root = Path(sys.argv[1])
for line in sys.stdin:
    asked = json.loads(line)
    method, parameters = asked["method"], asked.get("params", {})
    answer = {"jsonrpc": "2.0", "id": asked.get("id")}
    if method == "initialize":
        told = {"protocolVersion": parameters["protocolVersion"], "capabilities": {"resources": {}}}
        answer["result"] = told | {"serverInfo": {"name": "notes", "version": "1"}}
    elif method == "resources/list":
        found = [{"name": path.name, "uri": f"notes://{path.name}", "mimeType": "text/markdown"}
                 for path in sorted(root.glob("*.md"))]
        answer["result"] = {"resources": found}
    elif method == "resources/read":
        if (root / "cut").exists():
            os._exit(3)
        path = root / parameters["uri"].removeprefix("notes://")
        answer["result"] = {"contents": [{"uri": parameters["uri"], "text": path.read_text()}]}
    else:
        answer["error"] = {"code": -32601, "message": "no such method"}
    if "id" in asked:
        print(json.dumps(answer), flush=True)
"""

    def __init__(self, folder: Path) -> None:
        Remote.__init__(self, folder)
        self.root = folder / "served"
        self.root.mkdir()
        self.settings |= {"url": "notes"}

    def prepare(self, root: Path) -> None:
        (root / "server.py").write_text(self.FILE)
        command = json.dumps([sys.executable, "server.py", str(self.root)])
        (root / "hive.toml").write_text(f"[mcp.servers.notes]\ncommand = {command}\n")


def waited(port: int) -> None:
    """Wait until somebody listens on a port of loopback."""
    for _ in range(600):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    raise AssertionError(f"nobody listens on {port}")


REMOTES = [Folder, Git, S3, Web, WebDav, Sftp, Imap, Loader, Mcp]
