"""Store of backups in an S3-compatible bucket, below a prefix.

A file is gathered in a temporary file of this machine, because its name has its digest, and sent as one object: an
object is whole or does not exist. Its SHA-256 is sent with it, which the service checks.
"""

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, Final

import boto3
import botocore.config
import botocore.exceptions

from kraft.backups.store import Stored
from kraft_native.base.errors import KraftError

MEMORY_BYTES: Final = 1 << 20
ATTEMPTS: Final = 5
MISSING: Final = ("NoSuchKey", "404")


class BucketError(KraftError):
    """The service refused a request, or could not be reached; the message names the bucket."""


class UploadFile:
    """File that becomes one object."""

    def __init__(self, bucket: "Bucket") -> None:
        self._bucket = bucket
        self._file: IO[bytes] | None = tempfile.SpooledTemporaryFile(MEMORY_BYTES)  # noqa: SIM115 - closed by its owner

    def write(self, data: bytes | memoryview) -> None:
        assert self._file is not None
        self._file.write(data)

    def finish(self, name: str) -> None:
        assert self._file is not None
        self._file.seek(0)
        self._bucket.put(name, self._file)
        self.abandon()

    def abandon(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class Bucket:
    """Objects below `prefix` of a bucket that exists. Credentials, region and endpoint are those of AWS's environment
    variables and files; `AWS_ENDPOINT_URL_S3` names another service."""

    def __init__(self, bucket: str, prefix: str) -> None:
        self.bucket = bucket
        self.prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._making = threading.Lock()
        self._made: Any = None

    @property
    def place(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")

    @property
    def _client(self) -> Any:
        """Client of the service, made at the first use; all threads share it."""
        with self._making:
            if self._made is None:
                self._made = boto3.session.Session().client("s3", config=botocore.config.Config(
                    retries={"mode": "standard", "max_attempts": ATTEMPTS}))
            return self._made

    def files(self, prefix: str) -> list[Stored]:
        found: list[Stored] = []
        try:
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Prefix=self.prefix + prefix)
            for page in pages:
                found += [Stored(each["Key"].removeprefix(self.prefix), each["Size"])
                          for each in page.get("Contents", ())]
        except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
            raise self._failed(prefix, error) from error
        return sorted(found)

    def reader(self, name: str) -> IO[bytes]:
        try:
            body: IO[bytes] = self._client.get_object(Bucket=self.bucket, Key=self.prefix + name)["Body"]
        except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
            if isinstance(error, botocore.exceptions.ClientError) and error.response["Error"]["Code"] in MISSING:
                raise FileNotFoundError(f"{self.place}/{name}") from None
            raise self._failed(name, error) from error
        return body

    @contextmanager
    def reading(self, name: str) -> Iterator[None]:
        try:
            yield
        except (botocore.exceptions.BotoCoreError, OSError) as error:
            raise self._failed(name, error) from error

    def begin(self) -> UploadFile:
        return UploadFile(self)

    def put(self, name: str, file: IO[bytes]) -> None:
        """Write one object. Raises `BucketError`."""
        try:
            self._client.put_object(Bucket=self.bucket, Key=self.prefix + name, Body=file, ChecksumAlgorithm="SHA256")
        except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
            raise self._failed(name, error) from error

    def prepare(self) -> None:
        """Check that the bucket exists. Several backups with different names may be created in it at the same time."""
        try:
            self._client.head_bucket(Bucket=self.bucket)
        except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
            raise self._failed("", error) from error

    def release(self) -> None:
        """Do nothing: a bucket has no lock."""

    def _failed(self, name: str, error: Exception) -> BucketError:
        return BucketError(f"{self.place}/{name}".rstrip("/") + f": {error}")
