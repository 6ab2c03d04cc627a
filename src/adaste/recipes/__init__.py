"""A recipe is all that decides the numbers of a run; named recipes, methods and base optimizers; recipes as JSON."""
