"""Objects of S3, and of stores that speak its language: listed and opened for reading, by boto3."""

from collections.abc import Iterator
from typing import Any

SCHEME = "s3://"


class S3Error(ValueError):
    """A bucket or an object that cannot be read; the text says why."""


def listed(place: str) -> Iterator[tuple[str, int]]:
    """The URLs and bytes of all objects below `s3://BUCKET/PREFIX`; S3Error when they cannot be listed."""
    bucket, _, prefix = place.removeprefix(SCHEME).partition("/")
    client, errors = _client()
    try:
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
            for found in page.get("Contents", ()):
                if not found["Key"].endswith("/"):
                    yield f"{SCHEME}{bucket}/{found['Key']}", int(found["Size"])
    except errors as error:
        raise S3Error(str(error)) from None


def opened(url: str) -> Any:
    """The stream of an object; S3Error when it cannot be read."""
    bucket, _, key = url.removeprefix(SCHEME).partition("/")
    client, errors = _client()
    try:
        return client.get_object(Bucket=bucket, Key=key)["Body"]
    except errors as error:
        raise S3Error(str(error)) from None


def _client() -> tuple[Any, Any]:
    """A client, and what its requests raise; endpoint and keys are the environment's, as for the AWS CLI."""
    try:
        import boto3
        from botocore.exceptions import BotoCoreError, ClientError
    except ModuleNotFoundError:
        raise S3Error("needs boto3, which is not installed: `pip install boto3` installs it") from None
    try:
        return boto3.client("s3"), (BotoCoreError, ClientError, ValueError)
    except (BotoCoreError, ValueError) as error:
        raise S3Error(str(error)) from None
