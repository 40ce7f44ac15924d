"""Rotations of certificates, passwords and keys under load: clients with valid credentials see nothing of them."""
