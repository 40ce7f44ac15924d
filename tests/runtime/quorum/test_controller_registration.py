"""A controller that is refused registers again, after pauses that grow until it succeeds."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.controller_registration_response import ControllerRegistrationResponse
from kraft.runtime.net.dialer import Dialer
from kraft.runtime.quorum.controller_registration import ControllerRegistrar
from kraft.runtime.quorum.quorum_replica import QuorumReplica


def test_pauses_between_refusals_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> list[float]:
        pauses: list[float] = []
        monkeypatch.setattr(asyncio.get_running_loop(), "call_later", lambda pause, *_: pauses.append(pause))
        quorum = SimpleNamespace(config=SimpleNamespace(node_id=1), dialer=Dialer(),
                                 metadata=SimpleNamespace(subscribe=lambda _: None))
        registrar = ControllerRegistrar(cast(QuorumReplica, quorum), (), lambda: None)
        for code in (*[ErrorCode.NOT_CONTROLLER] * 12, ErrorCode.NONE, ErrorCode.NOT_CONTROLLER):
            cast(Any, registrar)._answered(ControllerRegistrationResponse(error_code=code))
        return pauses

    assert asyncio.run(run()) == [0.1 * 2 ** number for number in range(10)] + [60.0, 60.0, 0.1]
