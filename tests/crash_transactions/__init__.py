"""Transactions of real clients on a cluster under faults, judged for the anomalies of Adya and Elle."""
