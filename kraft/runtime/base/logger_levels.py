"""Levels of this process's loggers, as clients read and change them (KIP-412). They last until the process ends."""

import logging
from typing import Final

from kraft.broker.ports import LOG_LEVELS, ROOT_LOGGER

NUMBERS: Final = dict(zip(LOG_LEVELS, (logging.CRITICAL, logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG,
                                       5), strict=True))


class LoggerLevels:
    """Levels of loggers. Any thread. A package whose modules have loggers has one too."""

    def levels(self) -> dict[str, str]:
        """See `LoggerPort`."""
        names = sorted(logging.root.manager.loggerDict)
        return {ROOT_LOGGER: _level_of(ROOT_LOGGER), **{name: _level_of(name) for name in names}}

    def set_level(self, name: str, level: str) -> None:
        """See `LoggerPort`."""
        _logger(name).setLevel(NUMBERS[level])

    def unset_level(self, name: str) -> None:
        """See `LoggerPort`."""
        _logger(name).setLevel(logging.NOTSET)


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT_LOGGER else name)


def _level_of(name: str) -> str:
    """Kafka's word for the level in force: the most severe one that passes everything that the logger passes."""
    number = _logger(name).getEffectiveLevel()
    return next((word for word, least in NUMBERS.items() if number >= least), LOG_LEVELS[-1])
