"""Message sets of formats v0 and v1; for compiled callers only."""
