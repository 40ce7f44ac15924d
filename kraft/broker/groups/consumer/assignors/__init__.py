"""Assignors: functions from what members subscribe to and have, to what each is to have.

`spec` is their input, `range` and `uniform` are Kafka's two. Both are pure, give the same result for the same input,
and work in steps. Neither uses racks, like those of Kafka 4.3.1.
"""

from collections.abc import Callable, Generator, Mapping
from typing import Final, TypeAlias

from kraft.broker.groups.consumer.assignor_names import NAMES
from kraft.broker.groups.consumer.assignors.range import assign_ranges
from kraft.broker.groups.consumer.assignors.spec import Spec
from kraft.broker.groups.consumer.assignors.uniform import assign_uniformly
from kraft.broker.groups.consumer.member import Partitions

Assignor: TypeAlias = Callable[[Spec], Generator[None, None, Mapping[str, Partitions]]]

ASSIGNORS: Final[Mapping[str, Assignor]] = dict(zip(NAMES, (assign_uniformly, assign_ranges), strict=True))
"""Assignors by their names in `group.consumer.assignors`."""
