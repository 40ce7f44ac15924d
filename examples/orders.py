"""Service that stores orders in PostgreSQL and in a topic: each one in both, or in neither (KIP-939).

    python examples/orders.py --bootstrap localhost:9092 --database postgresql://localhost/shop --count 100

The transaction of the topic and that of the database commit together:

1. The records of the orders are sent, and the producer prepares its transaction. It does not expire any more.
2. The database inserts the rows and the producer's state, and prepares its transaction: `PREPARE TRANSACTION`. From
   here on both sides are able to commit.
3. `COMMIT PREPARED` decides. The database is the only place where a decision is made.
4. The producer completes its transaction with the state that the database committed last.

Any crash leaves the decision to the database. A new process with the same name rolls back what the database has only
prepared, and ends the topic's transaction by the committed state. A process that was replaced cannot commit any more:
the topic refuses its producer, and the database its `owner`.

The cluster needs `transaction.two.phase.commit.enable=true`, and PostgreSQL `max_prepared_transactions` above 0.
"""

from __future__ import annotations

import json
import uuid
from typing import Final

import click
import psycopg

from kraft.client import Cluster
from kraft.client.transactional_producer import TransactionalProducer

TOPIC: Final = "orders"
TABLES: Final = """
CREATE TABLE IF NOT EXISTS orders (id bigint PRIMARY KEY, item text NOT NULL);
CREATE TABLE IF NOT EXISTS producers (name text PRIMARY KEY, owner text NOT NULL, state text);
"""
LOCK_TIMEOUT: Final = "SET lock_timeout = '200ms'"
FORMAT_ID: Final = 939


class ReplacedError(Exception):
    """Another process with the same name has started."""


class OrderService:
    """Writer of orders. One process at a time has its `name`; a new one replaces the others. Used by one thread."""

    def __init__(self, cluster: Cluster, database: psycopg.Connection, name: str) -> None:
        """End what a previous process has left. `database` must be without a transaction, and not in autocommit mode,
        in which psycopg prepares no transaction."""
        self.name = name
        self._database = database
        database.execute(TABLES)
        database.execute(LOCK_TIMEOUT)
        database.commit()
        self._producer = TransactionalProducer(cluster, name, two_phase=True, keep_prepared=True)
        self._owner = uuid.uuid4().hex
        self._producer.complete(self._take_over())
        self._count = 0

    def place(self, orders: dict[int, str]) -> None:
        """Store these items by order id, in the database and in the topic. After an error, create the service again: it
        ends the orders in both or in neither."""
        self._producer.send(TOPIC, 0, [(str(number).encode(), json.dumps(item).encode())
                                       for number, item in orders.items()])
        state = self._producer.prepare()
        self._count += 1
        self._database.tpc_begin(self._database.xid(FORMAT_ID, self.name, f"{self._owner}:{self._count}"))
        self._database.cursor().executemany("INSERT INTO orders VALUES (%s, %s)", orders.items())
        updated = self._database.execute("UPDATE producers SET state = %s WHERE name = %s AND owner = %s",
                                         (state, self.name, self._owner))
        if updated.rowcount != 1:
            self._database.tpc_rollback()
            raise ReplacedError(f"{self.name}: another process has started")
        self._database.tpc_prepare()
        self._database.tpc_commit()
        self._producer.complete(state)

    def last_order(self) -> int:
        """Return the highest order id; 0 without orders."""
        row = self._database.execute("SELECT max(id) FROM orders").fetchone()
        self._database.commit()
        return 0 if row is None or row[0] is None else row[0]

    def _take_over(self) -> str | None:
        """Become the owner in the database; return the last state that was committed there.

        A prepared transaction of a previous process locks the row. It is rolled back, because nothing was decided.
        """
        while True:
            for each in self._database.tpc_recover():
                if (each.format_id, each.gtrid) == (FORMAT_ID, self.name):
                    self._roll_back(each)
            try:
                row = self._database.execute(
                    "INSERT INTO producers VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET owner = EXCLUDED.owner "
                    "RETURNING state", (self.name, self._owner)).fetchone()
            except psycopg.errors.LockNotAvailable:
                self._database.rollback()
                continue
            self._database.commit()
            return None if row is None else row[0]

    def _roll_back(self, transaction: psycopg.Xid) -> None:
        try:
            self._database.tpc_rollback(transaction)
        except psycopg.errors.UndefinedObject:
            self._database.rollback()       # the process that prepared it has committed it meanwhile


@click.command()
@click.option("--bootstrap", default="localhost:9092", show_default=True, help="Addresses of the cluster.")
@click.option("--database", required=True, help="Connection string of PostgreSQL.")
@click.option("--name", default="orders-1", show_default=True, help="Transactional id of this writer.")
@click.option("--count", type=click.IntRange(0), default=100, show_default=True, help="Orders to store.")
@click.option("--batch", type=click.IntRange(1), default=2, show_default=True, help="Orders of a transaction.")
def main(bootstrap: str, database: str, name: str, count: int, batch: int) -> None:
    """Store orders with the next free ids."""
    with Cluster(bootstrap) as cluster, psycopg.connect(database) as connection:
        service = OrderService(cluster, connection, name)
        first = service.last_order() + 1
        for start in range(first, first + count, batch):
            orders = {number: f"item {number}" for number in range(start, min(start + batch, first + count))}
            service.place(orders)
            click.echo(f"{max(orders)}")


if __name__ == "__main__":
    main()
