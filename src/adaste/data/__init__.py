"""Data sets of images, read from the files of their publishers and decoded once. Knows nothing of binary training."""

from adaste.data.dataset import Dataset, Split, subset
from adaste.data.download import Download
from adaste.data.layout import Source
from adaste.data.loading import available, data_folder, get, is_own, load, source_named, survey
from adaste.data.messages import DataError
from adaste.data.sources import SOURCES

__all__ = [
    "SOURCES",
    "DataError",
    "Dataset",
    "Download",
    "Source",
    "Split",
    "available",
    "data_folder",
    "get",
    "is_own",
    "load",
    "source_named",
    "subset",
    "survey",
]
