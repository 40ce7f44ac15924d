"""Assignors: functions from what members subscribe to and have, to what each is to have.

`spec` is their input, `range` and `uniform` are Kafka's two. Both are pure, give the same result for the same input,
and work in steps. Neither uses racks, like those of Kafka 4.3.1.
"""

from collections.abc import Callable, Generator, Mapping
from typing import Final, TypeAlias

from kraft.broker.groups.consumer.assignors.range import assign_ranges
from kraft.broker.groups.consumer.assignors.spec import Spec
from kraft.broker.groups.consumer.assignors.uniform import assign_uniformly
from kraft.broker.groups.consumer.member import Partitions
from kraft_native.base.errors import InvalidArgumentError

Assignor: TypeAlias = Callable[[Spec], Generator[None, None, Mapping[str, Partitions]]]

ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": assign_uniformly, "range": assign_ranges}
"""Assignors by their names in `group.consumer.assignors`."""
_CLASSES: Final = {f"org.apache.kafka.coordinator.group.assignor.{name.capitalize()}Assignor": name
                   for name in ASSIGNORS}


def assignor_names(listed: object) -> tuple[str, ...]:
    """Return the names in a value of `group.consumer.assignors`, in which Kafka's classes stand for their assignors.
    Raises `InvalidArgumentError` for another class, and without any."""
    names = [_CLASSES.get(str(each), str(each)) for each in listed] if isinstance(listed, list | tuple) else []
    unknown = [each for each in names if each not in ASSIGNORS]
    if unknown or not names:
        raise InvalidArgumentError(f"group.consumer.assignors: {', '.join(unknown) or 'nothing'} is not supported: "
                                   f"it lists {' and '.join(ASSIGNORS)}, in the order of preference")
    return tuple(dict.fromkeys(names))
