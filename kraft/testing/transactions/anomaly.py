"""Kinds of anomalies. The names are those of Adya, Elle and Jepsen where these have one.

    G0                      cycle of writes, among transactions whose writers exclude each other
    G1a                     read_committed returned a record of an aborted transaction, or a group has its offset
    G1b                     read_committed returned a part of a transaction's records of a partition as all of them
    G1c                     cycle of writes and reads of written records, or of such reads alone
    G0-realtime, G1c-realtime   the same with the order of transactions that did not overlap
    open-read               read_committed returned a record before its transaction's commit was requested
    torn                    a part of a transaction's records is visible, another part is not
    lost-write              acknowledged or committed, and not in the log, or not visible
    duplicate-write         a record is in the log twice
    phantom                 in the log, read, or committed as an offset, and never sent
    inconsistent-offsets    one offset, two records: as acknowledged, as read, or as in the log
    producer-order          records of one producer in another order than they were sent
    realtime-order          a record lies before one whose transaction had ended when its own began
    internal                one reader saw a record twice, or went back without a seek
    skipped                 a reader passed a visible record without receiving it
    processed-twice         two committed transactions of a group processed one record
    offset-without-output   a group's offset is beyond a visible record that no committed transaction processed
    output-without-offset   a committed transaction processed a record that is not below the group's offset
    offset-back             a group's offset is below one that was committed or read earlier
    open-too-long           a transaction was open longer than its time-out and a margin
"""

from __future__ import annotations

from typing import NamedTuple


class Anomaly(NamedTuple):
    """One violation. `text` describes the witness; `transactions` are the transactions in it, those of a cycle in its
    order."""

    kind: str
    text: str
    transactions: tuple[int, ...] = ()
