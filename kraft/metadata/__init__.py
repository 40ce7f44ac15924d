"""State of a cluster as its metadata log describes it: immutable image, delta, replay, snapshot.

    image     the state at one offset; never changes
    delta     the changes that a run of records makes to an image
    replay    records in, images out; handles metadata transactions
    snapshot  an image as records, and records as a snapshot file
    versions  the meaning of each metadata.version and feature level

Nothing here uses a clock, a file or a thread, and nothing iterates over a set. So every replica that replays the same
records has the same image, in the same order.
"""
