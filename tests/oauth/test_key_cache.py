"""Keys of a provider: when they are fetched, what stays in use without it, and that nothing ends the thread."""

import logging
import threading
from pathlib import Path

import pytest

from kraft.config.oauth_settings import Provider
from kraft.oauth.http import ProviderError, fetch
from kraft.oauth.key_cache import FILE_PERIOD_S, PAUSE_S, KeyCache, RefreshSchedule
from tests.oauth.provider import SigningKey, key_set, provider_server

PROVIDER = Provider(url="https://p/keys")


def test_the_times_of_the_attempts() -> None:
    schedule = RefreshSchedule(3_600, 0.1, 10)
    assert schedule.due_s == 0
    schedule.fetched(100)
    assert schedule.due_s == 3_700
    pauses = []
    for _ in range(9):
        schedule.failed(4_000)
        pauses.append(round(schedule.due_s - 4_000, 3))
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10]
    for _ in range(10_000):
        schedule.failed(5_000)
    assert schedule.due_s == 5_010


def test_an_unknown_key_causes_one_refresh_in_a_while() -> None:
    schedule = RefreshSchedule(3_600, 0.1, 10)
    schedule.fetched(100)
    for now_s in (100.1, 100.2, 101):
        schedule.missed(now_s)
        assert schedule.due_s == 100 + PAUSE_S
    schedule.fetched(102)
    schedule.missed(500)
    assert schedule.due_s == 500


def test_known_keys_stay_in_use_without_the_provider(caplog: pytest.LogCaptureFixture) -> None:
    answers: list[bytes | Exception] = [key_set(SigningKey()), ProviderError("down"), OSError("bug"), b"<html>", b"{}"]

    def get(_provider: Provider) -> bytes:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    cache = KeyCache(PROVIDER, 1_000, get=get)
    for now_s in range(0, 500, 100):
        cache.refresh(now_s)
        assert cache.keys.ids == ("k1",)
    assert cache.attempts == 5
    assert [each.levelname for each in caplog.records] == ["ERROR"] * 4
    assert "the 1 known ones stay in use: down" in caplog.text
    cache.refresh(420)
    assert len(caplog.records) == 4, "within a minute nothing is repeated"


def test_the_thread_continues_after_every_error(caplog: pytest.LogCaptureFixture) -> None:
    found, tries = threading.Event(), 0

    def get(_provider: Provider) -> bytes:
        nonlocal tries
        tries += 1
        if tries < 4:
            raise (MemoryError, RecursionError, KeyError)[tries - 1]
        return key_set(SigningKey())

    cache = KeyCache(Provider(url="https://p", retry_ms=1, retry_max_ms=2), 60_000,
                     lambda: found.set() if len(cache.keys) else None, get=get)
    cache.start()
    assert found.wait(20)
    cache.close()
    assert cache.keys.ids == ("k1",)
    assert "no token can be verified" in caplog.text


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(key_set(SigningKey()))
    reads = 0

    def get(provider: Provider) -> bytes:
        nonlocal reads
        reads += 1
        return fetch(provider)

    cache = KeyCache(Provider(url=path.as_uri()), 3_600_000, get=get)
    cache.refresh(0)
    cache.refresh(1)
    assert (reads, cache.keys.ids) == (1, ("k1",))
    assert cache._schedule.due_s == 1 + FILE_PERIOD_S
    replaced = tmp_path / "new.json"
    replaced.write_bytes(key_set(SigningKey("k2")))
    replaced.replace(path)
    cache.refresh(2)
    assert (reads, cache.keys.ids) == (2, ("k2",))
    path.unlink()
    cache.refresh(3)
    assert cache.keys.ids == ("k2",)


def test_a_missed_key_is_fetched_at_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), provider_server() as server:
        attempts = threading.Semaphore(0)
        cache = KeyCache(Provider(url=server.url("keys?x=1")), 3_600_000, attempts.release)
        cache.start()
        assert attempts.acquire(timeout=20)
        server.keys = key_set(server.signing, SigningKey("k2", number=1))
        cache.missed()
        assert attempts.acquire(timeout=20)
        cache.close()
        assert cache.keys.ids == ("k1", "k2")
        assert [path for path, _ in server.seen] == ["/keys?x=1"] * 2
