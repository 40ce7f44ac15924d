"""Message classes by name, imported at the first access."""

import functools
import importlib
import re

from kraft.protocol.message import Message


def module_name(name: str) -> str:
    """Return the module of a message: `topic_record` for `TopicRecord`; `KRaft` is one word."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.replace("KRaft", "Kraft")).lower()


@functools.cache
def message_class(name: str) -> type[Message]:
    """Return the class of the schema `name`, such as `FetchRequest`. Raise `ModuleNotFoundError` for an unknown
    name."""
    module = importlib.import_module(f"kraft.protocol.messages.{module_name(name)}")
    found: type[Message] = getattr(module, name)
    return found
