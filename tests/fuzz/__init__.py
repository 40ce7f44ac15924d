"""Parsers fed with damaged input: `python -m tests.fuzz --help`. Bounded, and repeatable from a seed."""
