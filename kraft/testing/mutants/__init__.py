"""Known bugs, each a patch of the core, its driver or its disk that can be put in and taken out again. The simulator is
worth something as long as it finds them all: `kraft simulate --mutants`.

    patches      putting in and taking out
    registry     all of them, by name; the numbers are those of the list of real bugs that they are made after
    voting replication voters machine durability     the bugs of quorums, by what they break
    replicas controllers                             those of brokers and controllers
    find         looks for the seed that shows one
"""
