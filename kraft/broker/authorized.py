"""Authorized operations as bit sets, for responses to requests that include them. Without an authorizer, all are
allowed."""

from typing import Final

NOT_REQUESTED: Final = -2147483648
# Bits are AclOperation codes. Topic: read, write, create, delete, alter, describe, describe and alter configs.
TOPIC_OPERATIONS: Final = sum(1 << code for code in (3, 4, 5, 6, 7, 8, 10, 11))
# Cluster: create, alter, describe, cluster action, describe and alter configs, idempotent write.
CLUSTER_OPERATIONS: Final = sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))
