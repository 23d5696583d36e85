"""An MCP server over stdio that says of itself whatever FOLDER/says.json holds: `python outsider.py FOLDER`.

`pages` are its listing, page by page, and the last one again and again with `endless`; `wait` is how long a page takes.
A call is noted in FOLDER/calls; `answer` is what it tells, `bytes` so many more. `${NAME}` in texts is a variable.
Resources have names of `uri` characters, one a page without an end.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any


def main(folder: Path) -> None:
    (folder / "pid").write_text(str(os.getpid()))
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked:
            continue
        says = json.loads(re.sub(r"\$\{(\w+)\}", lambda name: os.environ[name[1]], (folder / "says.json").read_text()))
        answer = reply(folder, says, asked["method"], asked.get("params") or {})
        kind = "result" if answer is not None else "error"
        found = answer if answer is not None else {"code": -32601, "message": "no such method"}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], kind: found}) + "\n")
        sys.stdout.flush()


def reply(folder: Path, says: dict[str, Any], method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        about = {"name": "outsider", "version": "1"}
        offers: dict[str, Any] = {"tools": {}, "resources": {}}
        return {"protocolVersion": params["protocolVersion"], "capabilities": offers, "serverInfo": about}
    if method == "tools/list":
        time.sleep(says.get("wait", 0))
        number, pages = int(params.get("cursor") or 0), says["pages"]
        further = {"nextCursor": str(number + 1)} if says.get("endless") or number + 1 < len(pages) else {}
        return {"tools": pages[min(number, len(pages) - 1)], **further}
    if method == "resources/list":
        number, named = int(params.get("cursor") or 0), {"uri": f"file:///{'x' * says['uri']}.md", "name": "x"}
        return {"resources": [named], "nextCursor": str(number + 1)}
    if method == "tools/call":
        with (folder / "calls").open("a") as file:
            file.write(f"{params['name']}\n")
        text = says.get("answer", "done") + "x" * says.get("bytes", 0)
        return {"content": [{"type": "text", "text": text}], "structuredContent": {}, "isError": False}
    return None


if __name__ == "__main__":
    main(Path(sys.argv[1]))
