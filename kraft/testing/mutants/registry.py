"""All mutants, by name."""

from typing import Final

from kraft.testing.mutants.controllers import CONTROLLERS
from kraft.testing.mutants.durability import DURABILITY
from kraft.testing.mutants.groups import GROUPS
from kraft.testing.mutants.machine import MACHINE
from kraft.testing.mutants.patches import Mutant
from kraft.testing.mutants.replicas import REPLICAS
from kraft.testing.mutants.replication import REPLICATION
from kraft.testing.mutants.share_states import SHARE_STATES
from kraft.testing.mutants.transactions import TRANSACTIONS
from kraft.testing.mutants.voters import VOTERS
from kraft.testing.mutants.voting import VOTING

MUTANTS: Final[dict[str, Mutant]] = {
    mutant.name: mutant
    for collection in (VOTING, REPLICATION, DURABILITY, VOTERS, MACHINE) for mutant in collection.mutants
}

BROKER_MUTANTS: Final[dict[str, Mutant]] = {
    mutant.name: mutant for collection in (REPLICAS, CONTROLLERS) for mutant in collection.mutants
}
"""Mutants that runs with brokers must find."""

TRANSACTION_MUTANTS: Final[dict[str, Mutant]] = {
    mutant.name: mutant for collection in (TRANSACTIONS, SHARE_STATES) for mutant in collection.mutants
}
"""Mutants that runs with transactions must find."""

GROUP_MUTANTS: Final[dict[str, Mutant]] = {mutant.name: mutant for mutant in GROUPS.mutants}
"""Mutants that runs with groups must find."""

NOT_HERE: Final[dict[int, str]] = {
    23: "an overloaded controller fences live brokers: leases are the controller's, the core has none",
}
"""Bugs of the list that cannot occur in a quorum of cores."""
