"""Create what the first loop of a process keeps for all others before a test is checked for leaks."""

import asyncio

import pytest
import uvloop


@pytest.fixture(scope="session", autouse=True)
def first_loop() -> None:
    """Run a first loop: the loop library keeps two descriptors for signals as long as the process lives."""
    uvloop.run(asyncio.sleep(0))
