"""HTTP gateway: records are produced by POST and consumed as server-sent events. docs/gateway.md describes it."""
