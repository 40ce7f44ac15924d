"""Draws from a random stream in less time than `random.Random` needs, with the same results."""

from random import Random


def below(random: Random, limit: int) -> int:
    """Return `random.randrange(limit)` of a `limit` above 0."""
    bits = limit.bit_length()
    number = random.getrandbits(bits)
    while number >= limit:
        number = random.getrandbits(bits)
    return number


def happens(random: Random, per_mille: int) -> bool:
    """Return whether an event of these odds happens. Without odds nothing is drawn."""
    return per_mille > 0 and below(random, 1000) < per_mille
