"""Connections on which a broker checks whether the processes of other brokers run, for `kraft.broker.leader_checks`.

Each broker has one connection, opened at its first check, and opened again after it closed. A check is an ApiVersions
request, which compiled code answers on the other side. When a broker closes its connection it is checked at once, so
that refusals do not name it if it has ended.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from kraft._version import __version__
from kraft.broker.leader_checks import Checked, LeaderChecks
from kraft.controller.sessions import Found
from kraft.metadata.image import BrokerRegistration
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.messages.api_versions_request import ApiVersionsRequest
from kraft.raft.types import Endpoint
from kraft.runtime.base.alarm import Alarm
from kraft.runtime.net.broker_connections import probe
from kraft.runtime.net.controller_channel import KeptLine
from kraft.runtime.net.dialer import Backoff, Dialer
from kraft_native.base.errors import KraftError
from kraft_native.partition.purgatory import now_ms as monotonic_ms

log = logging.getLogger(__name__)

CHECK_SECONDS: Final = 1.0
PAUSE_SECONDS: Final = 0.002
PAUSE_SECONDS_MAX: Final = 0.05
"""Pauses before the next connection to an address that accepts and closes: a process that ends closes its listener
after its connections."""


class LeaderLines:
    """Checks of other brokers. Loop thread only. `listener` is the listener of brokers among each other; `on_failure`
    receives a fault of our own."""

    def __init__(self, node_id: int, limit_ms: int, listener: str, dialer: Dialer,
                 on_failure: Callable[[BaseException], object]) -> None:
        self.checks = LeaderChecks(node_id, limit_ms, monotonic_ms, self._begin)
        self._client_id = f"broker-{node_id}-leader-check"
        self._listener = listener
        self._dialer = dialer
        self._on_failure = on_failure
        self._lines: dict[int, KeptLine] = {}
        self._lost_at: dict[int, float] = {}
        """Time of the last check that a closed connection caused, by broker."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._alarm = Alarm(monotonic_ms, self._tick)
        self.checks.on_deadline = self._alarm.set

    def close(self) -> None:
        """End all checks, and close the connections. Answers that are held back are not sent."""
        self._alarm.cancel()
        for task in self._tasks:
            task.cancel()
        for line in self._lines.values():
            line.close()

    def _tick(self) -> None:
        self.checks.tick()
        self._alarm.set(self.checks.deadline_ms)

    def _begin(self, broker: BrokerRegistration) -> None:
        if broker.broker_id not in self._lines:
            self._lines[broker.broker_id] = KeptLine(
                self._client_id, self._dialer, partial(self._lost, broker.broker_id))
        task = asyncio.get_running_loop().create_task(self._check(broker))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _lost(self, broker_id: int) -> None:
        """Check a broker that closed its connection, at most once a second: one that answers and closes each time must
        not keep this broker busy."""
        now = asyncio.get_running_loop().time()
        if now - self._lost_at.get(broker_id, -CHECK_SECONDS) >= CHECK_SECONDS:
            self._lost_at[broker_id] = now
            self.checks.connection_lost(broker_id)

    async def _check(self, broker: BrokerRegistration) -> None:
        try:
            try:
                async with asyncio.timeout(CHECK_SECONDS):
                    found = await self._ping(broker)
            except TimeoutError:
                found = Checked.UNANSWERED
                self._lines[broker.broker_id].close()    # the answer may still come
            if found is not Checked.ANSWERED:
                log.info("broker %d may have ended: %s", broker.broker_id, found.value)
            self.checks.checked(broker.broker_id, broker.epoch, found)
        except Exception as error:  # noqa: BLE001 - answers to clients would be held without end
            self._on_failure(error)

    async def _ping(self, broker: BrokerRegistration) -> Checked:
        endpoint = next((each for each in broker.endpoints if each.name == self._listener), None)
        if endpoint is None:
            return Checked.UNANSWERED
        line, backoff = self._lines[broker.broker_id], Backoff(PAUSE_SECONDS, PAUSE_SECONDS_MAX)
        while True:
            try:
                opened = await line.to(Endpoint(endpoint.name, endpoint.host, endpoint.port))
                await opened.request(
                    ApiVersionsRequest(client_software_name="kraft", client_software_version=__version__),
                    opened.versions.best(ApiKey.API_VERSIONS), CHECK_SECONDS)
            except ConnectionRefusedError:
                return Checked.REFUSED
            except OSError as error:
                log.debug("the check of broker %d met: %r", broker.broker_id, error)
            except KraftError as error:
                log.warning("broker %d answers a check with what cannot be read: %s", broker.broker_id, error)
                return Checked.ANSWERED
            else:
                return Checked.ANSWERED
            found = await probe((endpoint,))
            if found is not Found.ACCEPTED:
                return Checked.REFUSED if found is Found.REFUSED else Checked.UNANSWERED
            backoff.failed()
            await backoff.wait()
