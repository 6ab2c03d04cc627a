"""LatentOptimizer and what it is made of; `latent_optimizer` and `stepping` are the two to read first."""
