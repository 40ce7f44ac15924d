"""Brokers in the simulated world: controllers that decide, replicas that follow, clients that produce, and the faults
that break them. Each is a node of the simulated quorum (`kraft.testing.sim`), whose voters are the controllers.

    messages    messages between brokers, clients and controllers
    wire        connections: in order, and broken when one end dies
    log_view    the judges' view of one replica's log
    replica     a compiled partition, and what the judges have seen of it
    disk        the log directories of one broker, in memory
    frames      requests of clients as the frames that brokers read
    ends        the two ends of a connection, around compiled protocols
    fetcher     a follower's fetches from one leader, around the compiled fetcher
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
