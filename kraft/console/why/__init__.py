"""Causes of everything that is red: facts about a cluster, and rules that turn them into sentences with evidence.

    finding    one sentence with its evidence
    history    events of brokers and unclean elections, from the metadata log
    facts      all that the rules may use, read in parallel; each fact may be missing
    brokers, partitions, quorum, settings, groups
               rules: pure functions of the facts
    rules      all rules, and the order of what they find
"""
