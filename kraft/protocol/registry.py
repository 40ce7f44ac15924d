"""Message classes by name, imported when first asked for."""

import functools
import importlib
import re

from kraft.protocol.message import Message


def module_name(name: str) -> str:
    """`TopicRecord` -> `topic_record`; `KRaft` is one word."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.replace("KRaft", "Kraft")).lower()


@functools.cache
def message_class(name: str) -> type[Message]:
    """The class of the schema `name`, as `FetchRequest`. An unknown name raises `ModuleNotFoundError`."""
    module = importlib.import_module(f"kraft.protocol.messages.{module_name(name)}")
    found: type[Message] = getattr(module, name)
    return found
