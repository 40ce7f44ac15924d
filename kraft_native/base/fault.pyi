"""Conversion of a fault that nogil code found to an exception; for compiled callers only."""

from kraft_native.base.errors import KraftError

BY_CODE: dict[int, type[KraftError]]
