"""Sources whose real servers are elsewhere: Azure and Google Cloud Storage as emulated, git over http, an MCP server
of the SDK. They are left out where an emulator isn't installed: `npm install -g azurite`, `fake-gcs-server`."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import hmac
import http.client
import os
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.ports import lasting_port
from tests.sources.remotes import Cut, Git, Mcp, Served, waited

KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""What every Azurite has."""


class Stored(Served):
    """A store that obstore writes, too; a rename is a copy, and the end of the one before."""

    def put(self, name: str, text: str) -> None:
        import obstore

        obstore.put(self.store, name, text.encode())

    def remove(self, name: str) -> None:
        import obstore

        obstore.delete(self.store, name)

    def rename(self, old: str, new: str) -> None:
        import obstore

        self.put(new, bytes(obstore.get(self.store, old).bytes()).decode())
        self.remove(old)

    def begin(self, program: str, *arguments: str) -> int:
        found = shutil.which(program)
        if found is None:
            pytest.skip(f"{program} isn't installed")
        self._port = lasting_port()
        command = [found, *(each.format(port=self._port) for each in arguments)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        waited(self._port)
        return self._port

    def close(self) -> None:
        super().close()
        self._process.terminate()
        self._process.wait()


class Azure(Stored):
    kind = "azure"

    def serve(self) -> int:
        in_memory = ("--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck", "--silent")
        port = self.begin("azurite-blob", "--blobPort", "{port}", *in_memory)
        self._make("/devstoreaccount1/office", "restype", "container")
        return port

    def _make(self, path: str, key: str, value: str) -> None:
        """Make a container, which obstore can't."""
        now = dt.datetime.now(dt.UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
        told = {"x-ms-date": now, "x-ms-version": "2021-12-02"}
        lines = "".join(f"{name}:{told[name]}\n" for name in sorted(told))
        text = "PUT" + "\n" * 12 + f"{lines}/devstoreaccount1{path}\n{key}:{value}"
        signed = base64.b64encode(hmac.digest(base64.b64decode(KEY), text.encode(), hashlib.sha256)).decode()
        asked = http.client.HTTPConnection("127.0.0.1", self._port)
        told["authorization"] = f"SharedKey devstoreaccount1:{signed}"
        asked.request("PUT", f"{path}?{key}={value}", b"", told)
        assert asked.getresponse().status == 201
        asked.close()

    def __init__(self, folder: Path) -> None:
        from obstore.store import AzureStore

        super().__init__(folder)
        os.environ["A40_AZURE"] = KEY
        config = {"account_name": "devstoreaccount1", "endpoint": f"http://127.0.0.1:{self.way.port}/devstoreaccount1"}
        options = {"config": config, "secret_key": "access_key", "tls": False}
        self.settings |= {"url": "az://office/docs", "secret_ref": "env:A40_AZURE", "options": options}
        straight: Any = config | {"endpoint": f"http://127.0.0.1:{self._port}/devstoreaccount1", "access_key": KEY}
        self.store = AzureStore.from_url("az://office/docs", config=straight, client_options={"allow_http": True})


class Gcs(Stored):
    kind = "gcs"

    def serve(self) -> int:
        there = ("-backend", "memory", "-log-level", "error", "-public-host", "127.0.0.1")
        port = self.begin("fake-gcs-server", "-scheme", "http", "-host", "127.0.0.1", "-port", "{port}", *there)
        self._ask("POST", "/storage/v1/b", b'{"name": "office"}')
        return port

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        config = {"base_url": f"http://127.0.0.1:{self.way.port}", "skip_signature": "true"}
        self.settings |= {"url": "gs://office/docs", "options": {"config": config, "tls": False}}

    def _ask(self, method: str, path: str, body: bytes = b"") -> bytes:
        asked = http.client.HTTPConnection("127.0.0.1", self._port)
        asked.request(method, path, body, {"content-type": "application/json"})
        answer = asked.getresponse()
        assert answer.status in (200, 204)
        told = answer.read()
        asked.close()
        return told

    def put(self, name: str, text: str) -> None:
        where = quote(f"docs/{name}", safe="")
        self._ask("POST", f"/upload/storage/v1/b/office/o?uploadType=media&name={where}", text.encode())

    def remove(self, name: str) -> None:
        self._ask("DELETE", f"/storage/v1/b/office/o/{quote(f'docs/{name}', safe='')}")

    def rename(self, old: str, new: str) -> None:
        where = quote(f"docs/{old}", safe="")
        self.put(new, self._ask("GET", f"/storage/v1/b/office/o/{where}?alt=media").decode())
        self.remove(old)


class GitHttp(Git):
    """The same repository, served over http by git's own program."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._serve()
        self.way = Cut(self._server.server_port)
        self.settings["url"] = f"http://127.0.0.1:{self.way.port}/source/.git"

    def _serve(self) -> None:
        environment = os.environ | {"GIT_PROJECT_ROOT": str(self.folder), "GIT_HTTP_EXPORT_ALL": "1"}

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                path, _, query = self.path.partition("?")
                told = {"PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": self.command}
                told |= {"CONTENT_TYPE": self.headers.get("content-type", ""), "REMOTE_ADDR": "127.0.0.1"}
                told |= {"HTTP_CONTENT_ENCODING": self.headers.get("content-encoding", "")}
                told |= {"GIT_PROTOCOL": self.headers.get("git-protocol", "")}
                sent = self.rfile.read(int(self.headers.get("content-length") or 0))
                ran = subprocess.run(["git", "http-backend"], input=sent, env=environment | told, capture_output=True)
                head, _, body = ran.stdout.partition(b"\r\n\r\n")
                fields = dict(line.split(": ", 1) for line in head.decode().splitlines())
                self.send_response(int(fields.pop("Status", "200").split()[0]))
                for name, value in fields.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = answer

            def log_message(self, *arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    cut = Served.cut  # type: ignore[assignment]

    def close(self) -> None:
        self.way.close()
        self._server.shutdown()
        self._server.server_close()


class SdkMcp(Mcp):
    """A server that the SDK serves, over stdio."""

    FILE = """
import asyncio, os, sys
from pathlib import Path
from mcp import types
from mcp.server import Server
from mcp.server.stdio import stdio_server

root = Path(sys.argv[1])

async def listed(context, parameters):
    files = sorted(root.glob("*.md"))
    found = [types.Resource(name=one.name, uri=f"notes://{one.name}", mime_type="text/markdown") for one in files]
    return types.ListResourcesResult(resources=found)

async def read(context, parameters):
    if (root / "cut").exists():
        os._exit(3)
    text = (root / str(parameters.uri).removeprefix("notes://")).read_text()
    return types.ReadResourceResult(contents=[types.TextResourceContents(uri=parameters.uri, text=text)])

async def main():
    server = Server("notes", version="1", on_list_resources=listed, on_read_resource=read)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())

asyncio.run(main())
"""


EMULATED = [Azure, Gcs, GitHttp, SdkMcp]
