"""Names of assignors in settings. They are apart from the assignors, which a node needs later than its settings."""

from __future__ import annotations

from typing import Final

from kraft_native.base.errors import InvalidArgumentError

NAMES: Final = ("uniform", "range")
"""Names of the assignors in `group.consumer.assignors`, in the order of the default."""
_CLASSES: Final = {f"org.apache.kafka.coordinator.group.assignor.{name.capitalize()}Assignor": name
                   for name in NAMES}


def assignor_names(listed: object) -> tuple[str, ...]:
    """Return the names in a value of `group.consumer.assignors`, in which Kafka's classes stand for their assignors.
    Raises `InvalidArgumentError` for another class, and without any."""
    names = [_CLASSES.get(str(each), str(each)) for each in listed] if isinstance(listed, list | tuple) else []
    unknown = [each for each in names if each not in NAMES]
    if unknown or not names:
        raise InvalidArgumentError(f"group.consumer.assignors: {', '.join(unknown) or 'nothing'} is not supported: "
                                   f"it lists {' and '.join(NAMES)}, in the order of preference")
    return tuple(dict.fromkeys(names))
