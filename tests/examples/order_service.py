"""The example's order service as a child process, of which many have the same name one after the other."""

from __future__ import annotations

import importlib.util
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import psycopg

from kraft.client import Cluster
from tools.tree import ROOT

PROGRAM: Final = ROOT / "examples" / "orders.py"
IDS_BITS: Final = 40
"""Each service has as many order ids of its own."""
ORDERS_MAX: Final = 3
"""Orders of a transaction at most."""


def _load_program() -> type:
    spec = importlib.util.spec_from_file_location("orders", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.OrderService


OrderService: Final = _load_program()


def name_of(service: int) -> str:
    """Return the transactional id of a service."""
    return f"orders-{service}"


def serve(bootstrap: str, dsn: str, service: int, transactions: int, stored: Connection, errors: Path) -> None:
    """Store orders of this service in that many transactions, and write a byte to `stored` after each."""
    sys.stderr = errors.open("a")
    with Cluster(bootstrap) as cluster, psycopg.connect(dsn) as connection:
        orders = OrderService(cluster, connection, name_of(service))
        number = _last_of(connection, service) + 1
        for turn in range(transactions):
            size = 1 + turn % ORDERS_MAX
            orders.place({each: f"item {each}" for each in range(number, number + size)})
            number += size
            stored.send_bytes(b".")


def _last_of(connection: psycopg.Connection, service: int) -> int:
    """Return the highest id of the orders of this service."""
    first = service << IDS_BITS
    row = connection.execute("SELECT max(id) FROM orders WHERE id >= %s AND id < %s",
                             (first, first + (1 << IDS_BITS))).fetchone()
    connection.commit()
    return first if row is None or row[0] is None else row[0]
