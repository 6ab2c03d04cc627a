"""Training by a recipe: the step, run eagerly, compiled or as a CUDA graph; evaluation; epoch after epoch."""
