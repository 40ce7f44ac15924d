"""Backups of a running cluster, and clusters that begin with one.

A backup is created through Kafka's protocol and kept in a `store`: a directory or a bucket. `manifest` describes its
files, `cut` the common point of all partitions, `restore` how a node's directories are written from it.
"""
