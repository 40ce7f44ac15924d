"""Authorization of requests: which operation on which resource each API needs, and what a client without it gets.

`table` has a row for each API; `rules` describes rows and `serving` executes them, before and after the API's handler.
Compiled code checks Produce and Fetch. docs/internals/access.md is made of the same table (`tools.access_page`).
"""
