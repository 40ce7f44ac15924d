"""Histories of transactional clients of a replicated log, and the judges that search them for the anomalies of Adya and
Elle. Pure: real clients and simulated ones are judged by the same functions. `judge.judge` runs all judges."""
