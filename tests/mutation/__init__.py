"""Code taken out of the sources, one place at a time: the tests that are named for it must fail."""
