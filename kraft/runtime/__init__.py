"""The only part of `kraft` that owns files, sockets, threads and the clock: it runs what the other parts decide."""
