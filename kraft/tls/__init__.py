"""TLS of both sides: settings, key stores, contexts of the `ssl` module, certificates."""
