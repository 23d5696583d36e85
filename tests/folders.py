"""Folders that last as long as the process of the tests."""

import atexit
import os
import shutil
from pathlib import Path
from tempfile import mkdtemp


def kept_folder(prefix: str) -> Path:
    """Return a new folder that is removed when this process ends, but not when one that it forked does."""
    folder, owner = Path(mkdtemp(prefix=prefix)), os.getpid()

    def remove() -> None:
        if os.getpid() == owner:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder
