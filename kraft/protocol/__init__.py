"""Kafka's messages: requests, responses, records of the metadata log and of the coordinators.

Pure: bytes in, objects out, and back. `messages` is generated from `schemas` by `tools/protocol.py`.
"""
