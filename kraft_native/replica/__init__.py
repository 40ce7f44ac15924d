"""A follower's side: of a partition's leader, and of the quorum's."""
