"""What every room uses: checks, files, locks, warnings, JSON of dataclasses. Knows nothing of binary training."""
