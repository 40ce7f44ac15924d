"""SASL: mechanisms, and the exchange that runs one, on both sides of a connection.

Nothing here reads a socket, a clock or a source of randomness: messages, times and nonces are arguments.
"""
