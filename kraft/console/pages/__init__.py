"""One function for each page: a `Visit` becomes a `Page`."""
