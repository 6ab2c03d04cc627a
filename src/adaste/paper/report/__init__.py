"""Reports of runs for people to read: every form is a function of a collection of runs."""
