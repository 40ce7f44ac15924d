"""A quorum of real `kraft.raft` cores under virtual time, network and disks, in one thread.

`run.simulate(seed)` is the door. One seed makes one run: the options (`options.draw`), every fault, every delay and
every message order follow from it, and the digest of the run's events is the same in every process.
`docs/internals/simulator.md` tells what is modelled and what is not.

    loop       the queue of events, in virtual microseconds
    clock      a node's own clock: rate, jumps
    batches    the records of the simulated log, and their bytes
    disk       what survives which kind of death
    log        the core's log port, on that disk
    snapshots  the core's snapshot port, on that disk
    network    links, and what happens to messages on them
    event_loop the loop of a process, on which the real driver runs; `flusher` its thread beside that
    courier    who brings a node's requests to others
    node       one process: a core, the driver around it, a state machine
    clients    who proposes; `history` what they saw, and whether it may be
    operator   who changes voters, restarts, replaces disks
    faults     who breaks things
    ledger     what is known to be committed, by whom elected, with which chain of records
    invariants what must hold after every event, by name
    world      all of it together
"""
