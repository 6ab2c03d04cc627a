"""The published scripts as recipes, a file for each code base."""
