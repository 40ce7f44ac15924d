"""Identity providers of OAUTHBEARER: their keys and their tokens, over HTTP or from files, and the checks of tokens.

Functions here block: call them from a thread that may wait.
"""
