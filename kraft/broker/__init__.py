"""The broker's decisions: what a request means for groups, offsets and partitions, without sockets, clocks or files."""
