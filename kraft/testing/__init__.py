"""Test support: logs in memory, a simulator and an explorer for quorums; real clusters for clients
(`pytest_plugin`)."""
