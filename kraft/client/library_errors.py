"""Errors of the client library librdkafka, which the command line and Spark use beside this client, as ours."""

from typing import TYPE_CHECKING

from kraft.client.connection import ConnectionFailedError
from kraft.client.refusals import RefusedError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError


def library_error(what: str, error: "KafkaError") -> ConnectionFailedError | RefusedError:
    """Convert an error of the library to one of ours. An error of the cluster keeps its code."""
    return RefusedError(what, error.code()) if error.code() > 0 else ConnectionFailedError(f"{what}: {error.str()}")
