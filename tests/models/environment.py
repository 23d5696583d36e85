"""An environment in which boto3 finds a server on loopback and nothing else."""

from __future__ import annotations

import os
from functools import cache

import pytest


def point_aws_at(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    values = {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "loopback",
        "AWS_SECRET_ACCESS_KEY": "loopback",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    read_service_files_once()


@cache
def read_service_files_once() -> None:
    """Botocore parses megabytes of JSON about services and regions for every session; they don't change."""
    from botocore.loaders import JSONFileLoader

    load = JSONFileLoader.load_file
    read = cache(lambda path: load(JSONFileLoader(), path))
    JSONFileLoader.load_file = lambda _, path: read(path)
