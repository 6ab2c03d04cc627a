"""The training step and the evaluation, each run eagerly, compiled, or as a CUDA graph, with the same result."""

from adaste.engine.algorithms import algorithms
from adaste.engine.evaluation import Evaluation, NormEstimation, Score, evaluation_batch
from adaste.engine.feed import Feed, Resident
from adaste.engine.feeds import choose_feed
from adaste.engine.step import RATES, Progress, TrainingStep
from adaste.engine.streaming import Streaming
from adaste.engine.walk import Walk
from adaste.engine.ways import Choice, Way, choose_way

__all__ = [
    "RATES",
    "Choice",
    "Evaluation",
    "Feed",
    "NormEstimation",
    "Progress",
    "Resident",
    "Score",
    "Streaming",
    "TrainingStep",
    "Walk",
    "Way",
    "algorithms",
    "choose_feed",
    "choose_way",
    "evaluation_batch",
]
