"""Simulator: a quorum of real `kraft.raft` cores under virtual time, network and disks, in one thread.

`run.simulate(seed)` is the entry point. One seed defines one run: its options (`options.draw`), faults, delays and
message order. The digest of the run's events is the same in every process. `docs/internals/simulator.md` describes what
is modelled and what is not.

    loop       the queue of events, in virtual microseconds
    clock      a node's own clock: rate, jumps
    batches    the records of the simulated log, and their bytes
    disk       which data survives which kind of failure
    log        the core's log port, on that disk
    snapshots  the core's snapshot port, on that disk
    network    links, and what happens to messages on them
    event_loop the event loop of a process, on which the real driver runs; `flusher` is the thread beside it
    peer_sender carries a node's requests to other nodes
    node       one process: a core, the driver around it, a state machine
    clients    propose values; `history` records what they saw and checks it
    operator   changes voters, restarts nodes, replaces disks
    faults     injects faults
    ledger     the truth: committed records and their chain, elected leaders, votes
    invariants conditions that hold after every event, by name
    world      a whole run
"""
