"""The explorer: all that can happen to a small quorum of real cores, within bounds: `kraft simulate --exhaustive`.

    models       the quorums, what may happen to them, and how often
    node         one node: the core, a log in memory, and a driver in which nothing takes time
    log messages what nodes have, and what is under way between them
    frozen       objects as values, and values with the nodes renamed
    space        states and what leads from one to another; each event of each node is carried out once
    search       breadth first through a space
    trace        a way through it as text, and back

The invariants are those of the simulator, `kraft.testing.sim.invariants`.
"""
