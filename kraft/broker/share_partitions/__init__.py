"""Share partitions that this broker leads: their settings, where they begin, and requests about their stored state.

The records in flight are compiled (`kraft_native.share`). `kraft.runtime.replicas.share_partitions` connects both to
the persister.
"""
