"""A cluster of real processes on this machine: for trials (`kraft cluster up`) and for tests (`kraft.testing`).

    launcher    one process that has imported everything; each node is a fork of it
    forkserver  the code of that process
    member      the code of a fork: a node, and an agent beside it
    agent       a thread in the node for faults that need access from inside: cut links, slow and full disks
    node        the owner's view of one node: start, stop, kill, pause, faults
    cluster     brokers and controllers that know each other
"""
