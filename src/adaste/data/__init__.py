"""Data sets of images, read from the files of their publishers and decoded once. Knows nothing of binary training."""

from adaste.data.dataset import (
    Archive,
    Content,
    DataError,
    Dataset,
    Download,
    Layout,
    Part,
    Source,
    Split,
    part_from_arrays,
    subset,
)
from adaste.data.folders import ClassFolders
from adaste.data.loading import available, data_folder, find_source, get, is_own, load, survey
from adaste.data.sources import SOURCES

__all__ = [
    "SOURCES",
    "Archive",
    "ClassFolders",
    "Content",
    "DataError",
    "Dataset",
    "Download",
    "Layout",
    "Part",
    "Source",
    "Split",
    "available",
    "data_folder",
    "find_source",
    "get",
    "is_own",
    "load",
    "part_from_arrays",
    "subset",
    "survey",
]
