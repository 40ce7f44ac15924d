"""Every API without an ACL, with what it needs, and with what comes close."""

from typing import Final

import pytest

from kraft.broker.access.table import IN_COMPILED_CODE, ON_CONTROLLERS, ROWS
from kraft.broker.apis import SERVED
from kraft.protocol.api_keys import ApiKey
from kraft.runtime.quorum import controller_requests
from tests.broker.access.samples import HIDDEN, SAMPLES, Sample, handler, row_of
from tests.broker.access.world import denied, every, serve

HANDLERS_OWN: Final = (ApiKey.DESCRIBE_TOPIC_PARTITIONS,)
"""APIs whose handlers check: tests/broker/access/test_topics.py."""


def test_every_api_has_a_row_and_every_row_that_checks_has_a_sample() -> None:
    keys = {*SERVED, *controller_requests.SERVED, ApiKey.API_VERSIONS, *IN_COMPILED_CODE}
    assert set(ROWS) == keys
    samples = {sample.key for sample in (*SAMPLES, *HIDDEN)}
    for key, row in ROWS.items():
        assert bool(row.checks()) != bool(row.open_because), f"{ApiKey(key).name} needs something, or says why not"
        if row.checks() and key not in (*IN_COMPILED_CODE, *HANDLERS_OWN):
            assert key in samples, ApiKey(key).name
    assert set(ON_CONTROLLERS) <= {sample.key for sample in SAMPLES if sample.on_controller}


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_what_a_request_needs(sample: Sample) -> None:
    """Each alternative of what it needs is enough, and nothing less."""
    first = [group[0] for group in sample.needs]
    for place, group in enumerate(sample.needs):
        for each in group:
            acls = [*first[:place], each, *first[place + 1:]]
            served = serve(row_of(sample), sample.request, acls, sample.api_version, handler(sample))
            assert served.request == sample.request and not served.errors, each
    assert len(every(sample.needs)) >= len(first)
    for why, acls in denied(first).items():
        served = serve(row_of(sample), sample.request, acls, sample.api_version, handler(sample))
        assert len(served.errors) == 1 and served.errors <= set(sample.errors), why


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_the_error_is_that_of_what_is_missing(sample: Sample) -> None:
    for missing in range(len(sample.needs)):
        acls = [group[0] for place, group in enumerate(sample.needs) if place != missing]
        served = serve(row_of(sample), sample.request, acls, sample.api_version, handler(sample))
        expected = sample.errors[min(missing, len(sample.errors) - 1)]
        assert served.errors == {expected}


@pytest.mark.parametrize("sample", HIDDEN, ids=str)
def test_what_an_answer_hides(sample: Sample) -> None:
    [array] = sample.found or {}
    for each in every(sample.needs):
        served = serve(row_of(sample), sample.request, [each], sample.api_version, handler(sample))
        assert len(getattr(served.answer, array)) == 1
        for why, acls in denied([each]).items():
            served = serve(row_of(sample), sample.request, acls, sample.api_version, handler(sample))
            assert getattr(served.answer, array) == [] and not served.errors, why


def test_the_page_has_the_same_table() -> None:
    from tools.access_page import PAGE, markdown
    assert markdown() in PAGE.read_text(), "run: python -m tools.access_page"
