"""Conversion of logs to tables and of tables to records: jobs for `kraft pipeline`, also callable from Python.

Every job consists of a plan (the list of ranges), a function that processes one range wherever it is called, and a
conclusion. `workers` runs the function in threads of this process; `on_spark` runs the same function in Spark's
workers.
"""
