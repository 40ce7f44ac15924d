"""The page that shows readers in other processes what is visible: publishing and reading it."""

import itertools

import pytest

from kraft_native.log.live import LivePage, LiveView


@pytest.fixture
def page(tmp_path):
    made = LivePage(tmp_path)
    yield made
    made.close()


def test_publish(benchmark, page):
    offsets = itertools.count(1)

    def publish():
        offset = next(offsets)
        page.publish(0, offset, offset, offset, 0, offset * 100)

    benchmark(publish)


def test_state(benchmark, page, tmp_path):
    page.publish(0, 5, 5, 7, 0, 700)
    assert benchmark(LiveView(tmp_path).state)["log_end"] == 7
