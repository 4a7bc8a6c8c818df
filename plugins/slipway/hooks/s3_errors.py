"""Errors of S3 by code: missing objects, conditions that did not hold, and the project's errors for the rest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from boto3.exceptions import Boto3Error
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError
from urllib3.exceptions import HTTPError  # botocore lets it through where an answer in XML breaks off

from slipway.hooks.s3_refusals import refusal, remedy, unsigned
from slipway_core.errors import InputMissingError, StoreUnavailableError

T = TypeVar("T")

# Another conditional write to the key was under way. This does not say how that one ends: the request is repeated.
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
_UNDECIDED = frozenset({"409", "ConditionalRequestConflict"})
_MISSING = frozenset({"404", "NoSuchKey", "NoSuchVersion", "NotFound"})
_PRECONDITION = frozenset({"412", "PreconditionFailed"})
_ATTEMPTS = 6
_FIRST_PAUSE_S = 0.05


def is_missing(error: ClientError) -> bool:
    """Return whether S3 said that there is no such object, version or bucket."""
    return _code(error) in _MISSING


def is_precondition_failed(error: ClientError) -> bool:
    """Return whether the request's condition (If-Match, If-None-Match) did not hold."""
    return _code(error) in _PRECONDITION


def repeat_until_decided(act: Callable[[], T]) -> T:
    """Return what `act` returns; repeat it while S3 cannot say whether a condition holds.

    The pause between two attempts doubles.

    :raises ClientError: S3 refused for another reason, or still could not say.
    """
    for attempt in range(_ATTEMPTS):
        try:
            return act()
        except ClientError as error:
            if _code(error) not in _UNDECIDED:
                raise
            time.sleep(_FIRST_PAUSE_S * 2**attempt)
    return act()


@contextmanager
def translated(uri: str, aws_conn_id: str) -> Iterator[None]:
    """Raise the project's errors in place of boto's; no message quotes a signed address.

    :param uri: the object that the requests in the block are about.
    :param aws_conn_id: the connection that a person would have to correct.
    :raises InputMissingError: the object or the bucket is missing.
    :raises StoreUnavailableError: S3 refused for another reason, or did not answer.
    """
    try:
        yield
    except ClientError as error:
        if is_missing(error):
            raise InputMissingError(
                f"{uri} is missing",
                expected="an object",
                found=_code(error),
                remedy="check the bucket, the model and the version",
            ) from error
        raise _refused(uri, error, aws_conn_id) from error
    except (BotoCoreError, Boto3Error, NoCredentialsError, HTTPError) as error:
        hidden = error.__cause__ or error.__context__
        if isinstance(error, Boto3Error) and isinstance(hidden, ClientError):
            raise _refused(uri, hidden, aws_conn_id) from error
        raise StoreUnavailableError(
            f"the object store did not answer a request about {uri}",
            expected="an answer",
            found=f"{type(error).__name__}: {unsigned(str(error))}",
            remedy=f"check the endpoint and the credentials of the connection {aws_conn_id!r}",
        ) from error


def _refused(uri: str, error: ClientError, aws_conn_id: str) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"the object store refused a request about {uri}",
        expected="an answer",
        found=refusal(error.response),
        remedy=remedy(error.response, f"check the rights and the endpoint of the connection {aws_conn_id!r}"),
    )


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))
