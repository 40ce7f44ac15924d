"""The state of a cluster as its metadata log tells it: immutable image, delta, replay, snapshot.

    image    what is true at one offset; never changes
    delta    what a run of records changes in an image
    replay   records in, images out; knows metadata transactions
    snapshot an image as records, and records as a snapshot file
    versions what each metadata.version and feature level means

Nothing here touches a clock, a file or a thread, and nothing iterates over a set, so that every replica that replays
the same records has the same image, in the same order.
"""
