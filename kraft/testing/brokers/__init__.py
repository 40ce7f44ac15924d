"""Brokers in the simulated world: controllers that decide, replicas that follow, clients that produce, and the faults
that break them. Each is a node of the simulated quorum (`kraft.testing.sim`), whose voters are the controllers.

    messages    messages between brokers, clients and controllers
    wire        connections: in order, and broken when one end dies
    log         one replica's log, in memory
    disk        the log directories of one broker
    partition   a replica in its role: the model of `kraft_native.partition.partition`
    fetcher     a follower's connection to one leader: the model of `kraft_native.replica.replica_fetch`
    channel     from a broker to the active controller
    broker      one broker process around these
    leaders     answers that name leaders, and the judge of them
    machine     the real metadata machine on the simulated log
    node        a process of the quorum that may also be a broker
    clients     common parts of producers and consumers
    producers   idempotent clients
    consumers   clients that read all of a partition
    admin       an operator: creates topics, moves replicas, requests elections
    guard       deaths that no cluster could survive
    faults      faults that break brokers
    options     the options of a run, drawn from its seed
    truth       the committed records of each partition
    metadata    the metadata log, record by record, and whether each change is allowed
    liveness    conditions that must become true after everything is healed
    world       all of it together
"""
