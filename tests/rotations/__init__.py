"""Rotations of certificates and passwords under load: clients with valid credentials see nothing of them."""
