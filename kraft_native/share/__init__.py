"""Share groups: records that many consumers take from one partition, each record by one of them at a time."""
