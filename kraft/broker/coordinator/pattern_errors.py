"""Error of a pattern that cannot be used."""


class PatternError(ValueError):
    """A pattern that is not a regular expression of the supported syntax, or beyond a limit."""
