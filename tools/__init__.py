"""Checks and programs for working on the project. The product never imports them."""
