"""Helpers for all rooms: checks, files, locks, warnings, JSON of dataclasses. Knows nothing of binary training."""
