"""Stacks of a node's threads: what the node does right now."""

import sys
import threading
import traceback


def stacks_text() -> str:
    """Return the stack of each thread, innermost call last. Compiled functions do not appear; their callers do. Any
    thread may call."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = []
    for number, frame in sorted(sys._current_frames().items()):
        parts.append(f"thread {names.get(number, number)}:\n{''.join(traceback.format_stack(frame))}")
    return "\n".join(parts)
