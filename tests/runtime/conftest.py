"""What the first loop of a process keeps for all others is there before a test is watched for leaks."""

import asyncio

import pytest
import uvloop


@pytest.fixture(scope="session", autouse=True)
def first_loop() -> None:
    """The loop library keeps two descriptors for signals as long as the process lives."""
    uvloop.run(asyncio.sleep(0))
