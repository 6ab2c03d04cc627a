"""LatentOptimizer and what it is made of; `step` and `latent_optimizer` are the two to read first."""
