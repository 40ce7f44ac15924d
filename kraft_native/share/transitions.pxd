"""States of a record in a share group, events, and the one function from both to the next state."""


# Settled states have Kafka's codes. In the others a change was decided, and its write is not over.
cdef enum ShareState:
    SHARE_AVAILABLE = 0
    SHARE_ACQUIRED = 1
    SHARE_ACKNOWLEDGED = 2
    SHARE_RELEASING = 3
    SHARE_ARCHIVED = 4
    SHARE_ACCEPTING = 5
    SHARE_REJECTING = 6
    SHARE_STATES = 7


# The first five have the codes of Kafka's acknowledge types.
cdef enum ShareEvent:
    EVENT_GAP = 0
    EVENT_ACCEPT = 1
    EVENT_RELEASE = 2
    EVENT_REJECT = 3
    EVENT_RENEW = 4
    EVENT_ACQUIRE = 5
    EVENT_EXPIRE = 6               # the time of the acquisition lock is over
    EVENT_LEAVE = 7                # the session of the acquirer ended
    EVENT_WRITTEN = 8              # the write of the decided change succeeded
    EVENT_FAILED = 9               # it failed
    EVENT_ARCHIVE = 10             # the record cannot be delivered: deleted, aborted, compacted, a control record
    SHARE_EVENTS = 11


cdef inline bint is_terminal(int state) noexcept nogil:
    return state == SHARE_ACKNOWLEDGED or state == SHARE_ARCHIVED


cdef inline bint is_pending(int state) noexcept nogil:
    return state == SHARE_RELEASING or state == SHARE_ACCEPTING or state == SHARE_REJECTING


# The state that is written: of a decided change that to which it leads.
cdef inline int written_state(int state) noexcept nogil:
    if state == SHARE_ACCEPTING:
        return SHARE_ACKNOWLEDGED
    if state == SHARE_REJECTING:
        return SHARE_ARCHIVED
    return SHARE_AVAILABLE if state == SHARE_RELEASING else state


# The next state, -1 when the event does not apply. `exhausted`: the record was delivered as often as is allowed.
cdef inline int next_state(int state, int event, bint exhausted) noexcept nogil:
    if event == EVENT_ACQUIRE:
        return SHARE_ACQUIRED if state == SHARE_AVAILABLE else -1
    if event == EVENT_ARCHIVE:
        return -1 if is_terminal(state) else SHARE_ARCHIVED
    if event == EVENT_WRITTEN:
        return written_state(state) if is_pending(state) else -1
    if event == EVENT_FAILED:
        return SHARE_ACQUIRED if is_pending(state) else -1
    if state != SHARE_ACQUIRED:
        return -1
    if event == EVENT_ACCEPT:
        return SHARE_ACCEPTING
    if event == EVENT_GAP or event == EVENT_REJECT:
        return SHARE_REJECTING
    if event == EVENT_RELEASE:
        return SHARE_REJECTING if exhausted else SHARE_RELEASING
    if event == EVENT_RENEW:
        return SHARE_ACQUIRED
    if event == EVENT_EXPIRE:
        return SHARE_ARCHIVED if exhausted else SHARE_AVAILABLE
    return SHARE_AVAILABLE if event == EVENT_LEAVE else -1
