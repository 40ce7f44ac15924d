"""A cluster of real processes under every fault, with real clients: nothing that was acknowledged is lost, moved or
there twice, and nobody reads what is not committed."""
