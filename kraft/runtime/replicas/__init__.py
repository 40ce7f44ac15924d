"""Life of this node's partition replicas: metadata to roles, fetching, moves, reports to the controller."""
