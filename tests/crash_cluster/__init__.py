"""A cluster of real processes under every fault, with real clients. Nothing that was acknowledged is lost, moved or
stored twice, and no client reads uncommitted records."""
