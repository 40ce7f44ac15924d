"""Announced versions are those that a listener serves."""

import pytest

from kraft.protocol.api_keys import ApiKey
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.messages.api_versions_response import ApiVersionsResponse
from kraft.runtime.net.api_versions import api_versions_answers, served_versions


@pytest.mark.parametrize(("unstable", "last"), [((), 5), ((ApiKey.INIT_PRODUCER_ID,), 6)])
def test_an_unstable_version_is_announced_where_it_is_served(unstable: tuple[ApiKey, ...], last: int) -> None:
    """Version 6 of InitProducerId is that of two-phase commit."""
    answers = api_versions_answers([ApiKey.API_VERSIONS, ApiKey.INIT_PRODUCER_ID], {}, {}, 0, unstable=unstable)
    announced = {each.api_key: each.max_version for each in ApiVersionsResponse.decode(answers.answers[4], 4).api_keys}
    api = API_BY_KEY[ApiKey.INIT_PRODUCER_ID]
    assert announced[api.key] == served_versions(api, api.versions, unstable).stop - 1 == last
    assert announced[ApiKey.API_VERSIONS] == API_BY_KEY[ApiKey.API_VERSIONS].latest_stable
