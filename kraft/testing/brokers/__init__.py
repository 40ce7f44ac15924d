"""Brokers in the simulated world: controllers that decide, replicas that follow, clients that produce, and what breaks
them. Each is a node of the simulated quorum (`kraft.testing.sim`), whose voters are the controllers.

    messages    what brokers, clients and controllers say to each other
    wire        connections: in order, and broken when one end dies
    log         one replica's log, and the disk that has them all
    partition   a replica in its role: the twin of `kraft_native.partition`
    fetcher     a follower's connection to one leader: the twin of `kraft_native.replica_fetch`
    channel     from a broker to the active controller
    broker      one broker process around these
    machine     the real metadata machine on the simulated log
    node        a process of the quorum that may be a broker, too
    clients     what producers and consumers have in common
    producers   idempotent clients
    consumers   clients that read on through all of it
    admin       who makes topics, moves replicas, asks for elections
    guard       which death no cluster could survive
    faults      who breaks brokers
    truth       what is known to be committed, by partition
    metadata    what the metadata log says, record by record, and whether it may
    liveness    what comes true when everything is healed
    world       all of it together
"""
