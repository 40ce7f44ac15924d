"""What is in logs becomes tables, and tables become records: jobs for `kraft pipeline`, also to be called from Python.

Every job is a plan (which ranges there are), a function that works on one range wherever it is called, and a
conclusion. `workers` runs the function in threads here; `on_spark` runs the same function in Spark's workers.
"""
