"""Transactions in the simulated world of brokers: the coordinators of production, and clients that use them.

    async_loop      the event loop of `asyncio` on virtual time, for production code with tasks and timers
    dialer          connections that a broker opens to others, as `runtime.net.dialer` promises them
    cleaning        the cleaner, which the load of a coordinator may meet
    coordinators    the coordinators of one broker with their drivers, and the handlers of their requests
    calls           requests of clients as frames, and their answers
    clients         what all clients share: connections, leaders and coordinators
    writers         clients that write transactions, end, abandon or delay them, and repeat requests late
    transformers    clients that consume, process and produce in transactions
    readers         clients that read with either isolation level
    share_leaders   leaders of share partitions, which write to share coordinators and read back
    spans           the judge of open transactions
    replays         the judge of the records of coordinators
    options         the options of a run, drawn from its seed
    client_world    the world of brokers with clients that are coroutines
    world           all of it together
"""
