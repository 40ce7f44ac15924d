"""Record batches: codecs, headers, records, control records, the leader's checks."""
