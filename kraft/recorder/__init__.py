"""Flight recorder of the metadata quorum: the events of its replicas, and the explanations that follow from them.

    words      names, particulars and reasons of events of the consensus core
    replica_words  the same of a broker's replicas
    entry      one event, and its line in a file or an answer
    ring       the last entries of one replica, as the consensus core reports them
    state      the state of a replica: read from its core, or derived from its entries
    timeline   the entries of all nodes in one sequence, as text
    page       the same as one HTML file
    why        why there is no leader, why a voter lags, why a change is pending
"""
