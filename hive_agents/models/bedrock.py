"""Amazon Bedrock through boto3: clients, and their errors as `ModelError`."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hive_agents.base import HiveError
from hive_agents.models.failures import refused
from hive_agents.models.model import ErrorKind, ModelError

ATTEMPTS = 3
"""boto3 retries throttling and server errors itself; no caller retries."""

_THROTTLING = {"ThrottlingException", "TooManyRequestsException", "ServiceQuotaExceededException", "Throttling"}
_TIMEOUT = {"ModelTimeoutException", "RequestTimeout", "RequestTimeoutException"}
_NO_LOGIN = (
    "NoCredentialsError PartialCredentialsError CredentialRetrievalError TokenRetrievalError NoAuthTokenError "
    "SSOTokenLoadError UnauthorizedSSOTokenError SSOError LoginError ProfileNotFound"
).split()
_NO_MODEL = ("ResourceNotFoundException", "model identifier is invalid", "model ID")

_deadline = threading.local()


class AttemptTooLate(TimeoutError):
    """The caller's deadline has passed before an attempt of boto3."""


def open_client(service: str, read_timeout: float) -> Any:
    """Return a boto3 client; endpoints, credentials and region come from boto3's usual sources.

    boto3 reads `AWS_ENDPOINT_URL` and its form for one service, but not `AWS_REGION`, which is read here.

    Raises: HIVE-401 without a region or with a profile that doesn't exist.
    """
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    config = Config(
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        read_timeout=read_timeout,
        connect_timeout=min(read_timeout, 5.0),
    )
    try:
        session = boto3.Session(region_name=os.environ.get("AWS_REGION") or None)
        client = session.client(service, config=config)
    except (BotoCoreError, ValueError) as error:
        fix = "set AWS_REGION and credentials, as for the AWS command line"
        raise HiveError.of("HIVE-401", f"no client for {service}: {error}", fix=fix, exit_code=3) from None
    client.meta.events.register("before-send", _refuse_when_late)
    return client


@contextmanager
def attempts_until(seconds: float) -> Iterator[None]:
    """In this thread, refuse attempts that start later than `seconds` from now: nobody waits for their answers."""
    _deadline.at = time.monotonic() + seconds
    try:
        yield
    finally:
        del _deadline.at


def _refuse_when_late(**_: Any) -> None:
    if time.monotonic() > getattr(_deadline, "at", float("inf")):
        raise AttemptTooLate("the deadline has passed")


def failure(error: BaseException, name: str) -> ModelError | HiveError | None:
    """Return a boto3 error as one of the model `name`; None for an error that isn't boto3's."""
    from botocore.eventstream import ParserError
    from botocore.exceptions import BotoCoreError, ClientError
    from urllib3.exceptions import HTTPError, TimeoutError

    if isinstance(error, ClientError):
        return _refused(error.response, name)
    if isinstance(error, AttemptTooLate | TimeoutError):
        return ModelError("timeout", f"{name}: {error}")
    if isinstance(error, ParserError):
        return ModelError("garbage", f"{name}: {error}")
    if isinstance(error, HTTPError):  # of a stream's connection, which botocore doesn't wrap
        return ModelError("server", f"{name}: {error}")
    if not isinstance(error, BotoCoreError):
        return None
    kind: ErrorKind = "server"
    if type(error).__name__ in _NO_LOGIN:
        kind = "authentication"
    elif type(error).__name__ in ("ReadTimeoutError", "ConnectTimeoutError"):
        kind = "timeout"
    elif type(error).__name__ == "ResponseParserError":
        kind = "garbage"
    return ModelError(kind, f"{name}: {error}")


def _refused(response: Any, name: str) -> ModelError | HiveError:
    error = response.get("Error", {})
    code, message = error.get("Code", ""), error.get("Message", "")
    code = code[:1].upper() + code[1:]  # events of a stream start the names of exceptions in lower case
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    why = f"{name}: {code}: {message}"
    # Codes first: messages of throttling name the model, too.
    if code in _THROTTLING:
        return refused(429, why)
    if code in _TIMEOUT:
        return refused(408, why)
    if status == 404 or any(part in f"{code} {message}" for part in _NO_MODEL):
        fix = "check the name, and that the model is enabled in this region"
        return HiveError.of("HIVE-401", why, file="hive.toml", path="models", fix=fix, exit_code=3)
    return refused(status, why)
