"""One module per message, made by tools/protocol.py from `schemas/messages`.

Nothing is imported here, so that a program that needs ten messages does not load three hundred.
"""
