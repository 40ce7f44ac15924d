"""The explorer: all possible runs of a small quorum of real cores, within bounds: `kraft simulate --exhaustive`.

    models       the quorums, their events, and how often each may happen
    node         one node: the core, a log in memory, and a driver in which nothing takes time
    log messages the log of a node; the messages under way between nodes
    frozen       objects as values, and values with the nodes renamed
    tables       values by number
    space        states and the transitions between them; each event of each node is executed once
    search       breadth-first search through a space
    trace        a path through a space as text, and the replay of such a text

The invariants are those of the simulator, `kraft.testing.sim.invariants`.
"""
