"""A cluster of real processes on this machine: for trials (`kraft cluster up`) and for tests (`kraft.testing`).

    launcher    one process that has imported everything; each node is a fork of it
    forkserver  what runs in that process
    member      what runs in a fork: a node, and beside it the agent
    agent       a thread in the node that does what can only be done from inside: cut links, slow and full disks
    node        one node as its owner sees it: start, stop, kill, pause, faults
    cluster     brokers and controllers that know each other
"""
