"""Build facts of this core. `kraft` refuses to start on a core of another version."""

cdef extern from *:
    """
    #ifndef KRAFT_VERSION
    #error "KRAFT_VERSION comes from setup.py"
    #endif

    #ifdef KRAFT_DEBUG
    #define KN_DEBUG 1
    #else
    #define KN_DEBUG 0
    #endif

    #ifdef __SANITIZE_ADDRESS__
    #define KN_SANITIZE 1
    #else
    #define KN_SANITIZE 0
    #endif

    #ifdef CYTHON_TRACE_NOGIL
    #define KN_COVERAGE CYTHON_TRACE_NOGIL
    #else
    #define KN_COVERAGE 0
    #endif

    #ifdef __clang__
    #define KN_COMPILER __VERSION__
    #else
    #define KN_COMPILER "GCC " __VERSION__
    #endif
    """
    const char* KRAFT_VERSION
    const char* KN_COMPILER
    int KN_DEBUG
    int KN_SANITIZE
    int KN_COVERAGE
    unsigned int CYTHON_HEX_VERSION


def version() -> str:
    """The version of the sources that this core was compiled from."""
    return KRAFT_VERSION.decode()


def flavour() -> str:
    """`release`, or the switches that were set: `debug`, `sanitize`, `coverage`, joined by `+`."""
    switches = [name for name, on in (("debug", KN_DEBUG), ("sanitize", KN_SANITIZE), ("coverage", KN_COVERAGE)) if on]
    return "+".join(switches) or "release"


def compiler() -> str:
    """The C compiler with its version."""
    return KN_COMPILER.decode()


def cython_version() -> str:
    """The Cython release that translated the core."""
    return ".".join(str(CYTHON_HEX_VERSION >> shift & 0xff) for shift in (24, 16, 8))
