"""Build facts of this core. `kraft` refuses to start on a core of another version."""

def version() -> str:
    """The version of the sources that this core was compiled from."""

def flavour() -> str:
    """`release`, or the switches that were set: `debug`, `sanitize`, `coverage`, joined by `+`."""

def compiler() -> str:
    """The C compiler with its version."""

def cython_version() -> str:
    """The Cython release that translated the core."""
