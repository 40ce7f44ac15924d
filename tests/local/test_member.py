"""The process from which nodes are forked: what is read before the first of them."""

from importlib import import_module

import pytest

from kraft.broker import apis
from kraft.local.member import warm_up


def test_all_handlers_are_imported_before_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that imported one later would mix it with older modules, where the sources have changed meanwhile."""
    imported: list[str] = []

    def recorded(name: str) -> object:
        imported.append(name)
        return import_module(name)

    monkeypatch.setattr(apis, "import_module", recorded)
    warm_up()
    assert imported == [*(f"kraft.broker.apis.{file}" for file in apis.FILES), *apis.LATE]
    assert all(callable(apis.handler_of(key)) for key in apis.SERVED)
