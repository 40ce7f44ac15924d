"""Groups in the simulated world of brokers: the coordinators of production, and consumers that use them.

    ledger          what members own, commit and read, and the judge of that
    members         what the members of both protocols share
    consumers       members of the consumer protocol (KIP-848)
    classic         members of the classic protocol
    population      the members of one group: they join, leave, die and hang
    stability       what comes true in a group when everything is healed
    states          the state of a coordinator, and the judge of its log
    options         the options of a run, drawn from its seed
    world           all of it together

`kraft.testing.brokers.transactional.cleaning` has the model of the cleaner, which loads of coordinators meet.
"""
