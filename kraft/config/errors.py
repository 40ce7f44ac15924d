"""What a bad setting raises."""

from kraft_native.errors import KraftError


class InvalidConfigError(KraftError, ValueError):
    """A setting's name or value is not allowed; the message names it, the value, what is allowed. Nothing changed."""

    code = 40
