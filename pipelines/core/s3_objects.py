"""Objects of a bucket in S3: read, written on a condition, listed. The only door to boto3.

Endpoint, region and credentials are those that boto3 finds: AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, ~/.aws and so on.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from pipelines.core.errors import InputError, UsageError, one_line

S3 = "s3://"
CONNECT_SECONDS, READ_SECONDS, ATTEMPTS = 10, 30, 4
DIGEST = "sha256"  # the key in an object's metadata for the digest of its bytes
CONFLICTS = ("PreconditionFailed", "ConditionalRequestConflict", "412", "409")
MISSING = ("NoSuchKey", "404")
REFUSED = ("AccessDenied", "403", "Forbidden", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken")
Value = TypeVar("Value")


@dataclass(frozen=True)
class ObjectState:
    """An object as it was at a moment: its ETag names this state of it."""

    etag: str
    digest: str  # as its writer gave it; "" if it was not written here
    age_seconds: float  # since it was written, by the clock of S3
    size_bytes: int = 0  # as S3 says it; 0 for a state that this process has written


def bucket_and_key(name: str) -> tuple[str, str]:
    """The bucket and the key of a name such as s3://bucket/rows. Raises UsageError if it is none."""
    bucket, _, key = name.removeprefix(S3).partition("/")
    key = key.rstrip("/")
    if not bucket or not name.isprintable() or any(part in ("", ".", "..") for part in key.split("/") if key):
        raise UsageError(f"{name}: {S3}BUCKET/FOLDER is expected")
    return bucket, key


class Objects:
    """The objects of a bucket. Raises InputError, with the object's name, where S3 fails or does not answer."""

    def __init__(self, bucket: str) -> None:
        self.bucket = bucket

    def __getstate__(self) -> dict[str, Any]:
        return {"bucket": self.bucket}  # another process has a connection of its own

    @cached_property
    def client(self) -> Any:
        """The connection; many threads may use it."""
        import boto3
        from botocore.config import Config

        limits: dict[str, Any] = {"connect_timeout": CONNECT_SECONDS, "read_timeout": READ_SECONDS}
        limits |= {"retries": {"mode": "standard", "total_max_attempts": ATTEMPTS}, "max_pool_connections": 32}
        client = boto3.client("s3", config=Config(**limits))
        if client.meta.endpoint_url.endswith(".amazonaws.com"):
            return client
        # elsewhere the bucket is seldom a part of the host's name
        return boto3.client("s3", config=Config(**limits, s3={"addressing_style": "path"}))

    def head(self, key: str) -> ObjectState | None:
        """The state of an object; None if there is none."""
        with self._answering(key):
            try:
                answer = self.client.head_object(Bucket=self.bucket, Key=key)
            except _errors() as error:
                if _code(error) in MISSING:
                    return None
                raise
        return _state_of(answer)

    def fetch(self, key: str, file: Path) -> bool:
        """Write the bytes of an object to a file; False if there is none."""

        def copy(answer: dict[str, Any]) -> bool:
            with file.open("wb") as target:
                shutil.copyfileobj(answer["Body"], target, 1 << 20)
            return True

        return bool(self._got(key, copy))

    def read(self, key: str) -> tuple[bytes, ObjectState] | None:
        """The bytes of a small object, and its state; None if there is none."""
        return self._got(key, lambda answer: (answer["Body"].read(), _state_of(answer)))

    def _got(self, key: str, use: Callable[[dict[str, Any]], Value]) -> Value | None:
        """Use the answer for an object; an answer that ends early is asked for again, which boto3 does not do."""
        with self._answering(key):
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    return use(self.client.get_object(Bucket=self.bucket, Key=key))
                except _errors() as error:
                    if _code(error) in MISSING:
                        return None
                    if _code(error) or attempt == ATTEMPTS:
                        raise
        raise AssertionError(key)

    def put(self, key: str, body: Path | bytes, digest: str, before: ObjectState | None) -> str | None:
        """Write an object if its state is still `before` (None: there is none); returns its ETag, or None if not."""
        condition = {"IfMatch": before.etag} if before else {"IfNoneMatch": "*"}
        with self._answering(key):
            try:
                named: dict[str, Any] = {"Bucket": self.bucket, "Key": key, "Metadata": {DIGEST: digest}, **condition}
                if isinstance(body, bytes):
                    return str(self.client.put_object(Body=body, **named)["ETag"])
                with body.open("rb") as file:
                    return str(self.client.put_object(Body=file, **named)["ETag"])
            except _errors() as error:
                if _code(error) in (*CONFLICTS, *MISSING):  # missing: there is no state to be `before` any more
                    return None
                raise

    def remove(self, key: str) -> None:
        """Remove an object, if there is one."""
        with self._answering(key):
            self.client.delete_object(Bucket=self.bucket, Key=key)

    def listed(self, prefix: str) -> dict[str, tuple[int, str]]:
        """The objects whose keys begin with `prefix` -> the size in bytes and the ETag of each."""
        pages = self._pages(prefix)
        return {item["Key"]: (item["Size"], item["ETag"]) for page in pages for item in page.get("Contents", [])}

    def below(self, prefix: str) -> tuple[list[str], list[str]]:
        """The keys in the folder `prefix`, which ends with a slash, and the folders in it, as prefixes."""
        keys, folders = list[str](), list[str]()
        for page in self._pages(prefix, Delimiter="/"):
            keys += [item["Key"] for item in page.get("Contents", [])]
            folders += [item["Prefix"] for item in page.get("CommonPrefixes", [])]
        return keys, folders

    def _pages(self, prefix: str, **more: str) -> Iterator[dict[str, Any]]:
        with self._answering(prefix):
            yield from self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix, **more)

    def name(self, key: str) -> str:
        """The name of an object for a person."""
        return f"s3://{self.bucket}/{key}"

    @contextmanager
    def _answering(self, key: str) -> Iterator[None]:
        try:
            yield
        except _errors() as error:
            raise InputError(f"{self.name(key)}: {_reason(error, self.bucket)}") from None


def _errors() -> tuple[type[Exception], ...]:
    """The errors of boto3: S3 refuses, cannot be reached, stalls, or cuts its answer."""
    from botocore.exceptions import BotoCoreError, ClientError

    return (ClientError, BotoCoreError)


def _reason(error: Exception, bucket: str) -> str:
    """Say why S3 did not do what it was asked, and what to do."""
    code = _code(error)
    if code == "NoSuchBucket":
        return f"S3 refuses it ({code}); there is no bucket {bucket}, check its name and AWS_ENDPOINT_URL"
    if code in REFUSED:
        return f"S3 refuses it ({one_line(error)}); check AWS_ACCESS_KEY_ID and the rights of its user"
    if type(error).__name__ == "NoCredentialsError":
        return "no credentials for S3; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write ~/.aws/credentials"
    what = "S3 refuses it" if code else "S3 does not answer"
    return f"{what} ({one_line(error)}); what was finished before stays, run it again"


def _code(error: Exception) -> str:
    """The code of an answer of S3; "" if there was no answer."""
    answer = getattr(error, "response", None) or {}  # None where the answer ended early
    return str(answer.get("Error", {}).get("Code", ""))


def _state_of(answer: dict[str, Any]) -> ObjectState:
    from email.utils import parsedate_to_datetime

    now = parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"])
    age = (now - answer["LastModified"]).total_seconds()
    return ObjectState(answer["ETag"], answer.get("Metadata", {}).get(DIGEST, ""), age, answer["ContentLength"])
