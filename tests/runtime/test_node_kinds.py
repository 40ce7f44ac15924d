"""Which node a configuration asks for."""

import pytest

from kraft.config.errors import InvalidConfigError
from kraft.config.node import NodeConfig
from kraft.runtime.process import make_node


@pytest.mark.parametrize("texts", [
    {"process.roles": "broker"}, {"controller.quorum.voters": "1@localhost:9093,2@localhost:9094"},
])
def test_brokers_beside_other_controllers_are_refused(texts: dict[str, str]) -> None:
    with pytest.raises(InvalidConfigError, match=r"process\.roles: .* with other controllers"):
        make_node(NodeConfig(texts))
