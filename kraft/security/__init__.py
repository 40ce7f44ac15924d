"""Identities of clients, and the decisions about them: pure functions of their arguments."""
