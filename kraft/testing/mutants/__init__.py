"""Known bugs: each is a patch of the core, its driver or its disk that can be applied and undone. The simulator must
find them all: `kraft simulate --mutants`.

    patches      applies and undoes a bug
    registry     all mutants, by name; the numbers are those of the list of real bugs that they reproduce
    voting replication voters machine durability     bugs of quorums, by the part that they break
    replicas controllers                             bugs of brokers, most of them of compiled code, and of controllers
    find         searches for seeds that show a mutant
"""
