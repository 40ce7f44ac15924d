"""The flight recorder of the metadata quorum: what happened to its replicas, and what follows from it.

    entry      one thing that happened, and its line in a file or an answer
    ring       the last entries of one replica, as the consensus core tells them
    state      what a replica is: read from its core, or from its entries
    timeline   the entries of all nodes in one row, as text
    page       the same as one HTML file
    why        why there is no leader, why a voter lags, why a change is pending
"""
