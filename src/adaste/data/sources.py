"""The data sets by name: what each one is, where it comes from, and how its files are read."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from adaste._util.packages import Registry
from adaste.data.cifar import CifarBinary, CifarPython
from adaste.data.dataset import Archive, Download, Source
from adaste.data.folders import ClassFolders, TinyImageNet
from adaste.data.mnist import Digits, Idx

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
TORONTO = "https://www.cs.toronto.edu/~kriz"
FAST_AI = "https://s3.amazonaws.com/fast-ai-imageclas"
BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))

CIFAR10 = Source(
    name="cifar10",
    title="CIFAR-10",
    size=(32, 32, 3),
    classes=10,
    train=50_000,
    test=10_000,
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2470, 0.2435, 0.2616),
    layouts=(
        CifarBinary(
            roots=("cifar-10-batches-bin",),
            archives=(Archive("cifar-10-binary.tar.gz", "cifar-10-batches-bin"),),
            train=tuple(f"{name}.bin" for name in BATCHES),
            test=("test_batch.bin",),
            names="batches.meta.txt",
            classes=10,
            label_bytes=1,
            label_at=0,
        ),
        CifarPython(
            roots=("cifar-10-batches-py",),
            archives=(Archive("cifar-10-python.tar.gz", "cifar-10-batches-py"),),
            train=BATCHES,
            test=("test_batch",),
            names="batches.meta",
            classes=10,
            label_key="labels",
            names_key="label_names",
        ),
    ),
    downloads=(
        Download(
            url=f"{TORONTO}/cifar-10-binary.tar.gz",
            path="cifar-10-binary.tar.gz",
            bytes=170_052_171,
            md5="c32a1d4ab5d03f1284b67883e8d87530",
        ),
    ),
    home=f"{TORONTO}/cifar.html",
    licence="none stated; cite Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009",
)

CIFAR100 = Source(
    name="cifar100",
    title="CIFAR-100",
    size=(32, 32, 3),
    classes=100,
    train=50_000,
    test=10_000,
    mean=(0.5071, 0.4865, 0.4409),
    std=(0.2673, 0.2564, 0.2762),
    layouts=(
        CifarBinary(
            roots=("cifar-100-binary",),
            archives=(Archive("cifar-100-binary.tar.gz", "cifar-100-binary"),),
            train=("train.bin",),
            test=("test.bin",),
            names="fine_label_names.txt",
            classes=100,
            label_bytes=2,
            label_at=1,
        ),
        CifarPython(
            roots=("cifar-100-python",),
            archives=(Archive("cifar-100-python.tar.gz", "cifar-100-python"),),
            train=("train",),
            test=("test",),
            names="meta",
            classes=100,
            label_key="fine_labels",
            names_key="fine_label_names",
        ),
    ),
    downloads=(
        Download(
            url=f"{TORONTO}/cifar-100-binary.tar.gz",
            path="cifar-100-binary.tar.gz",
            bytes=168_513_733,
            md5="03b5dce01913d631647c71ecec9e9cb8",
        ),
    ),
    home=f"{TORONTO}/cifar.html",
    licence="none stated; cite Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009",
)

TINY_IMAGENET = Source(
    name="tiny-imagenet",
    title="Tiny ImageNet-200",
    size=(64, 64, 3),
    classes=200,
    train=100_000,
    test=10_000,
    mean=IMAGENET_MEAN,
    std=IMAGENET_STD,
    layouts=(
        TinyImageNet(
            roots=("tiny-imagenet-200",),
            archives=(Archive("tiny-imagenet-200.zip", "tiny-imagenet-200"),),
        ),
    ),
    downloads=(
        Download(
            url="http://cs231n.stanford.edu/tiny-imagenet-200.zip",
            path="tiny-imagenet-200.zip",
            bytes=248_100_043,
            md5="90528d7ca1a48142e341f4ef8d21d0de",
        ),
    ),
    home="http://cs231n.stanford.edu",
    licence="the terms of ImageNet: research and education, not commercial",
)

# Images of one shape are needed: photographs are cached as squares of 256, of which training crops 224.
IMAGENETTE_SIZES = ("imagenette2-320", "imagenette2", "imagenette2-160")
IMAGENETTE = Source(
    name="imagenette",
    title="Imagenette",
    size=(256, 256, 3),
    classes=10,
    train=9_469,
    test=3_925,
    mean=IMAGENET_MEAN,
    std=IMAGENET_STD,
    layouts=(
        ClassFolders(
            roots=IMAGENETTE_SIZES,
            archives=tuple(Archive(f"{name}.tgz", name) for name in IMAGENETTE_SIZES),
            side=256,
            names=MappingProxyType(
                {
                    "n01440764": "tench",
                    "n02102040": "English springer",
                    "n02979186": "cassette player",
                    "n03000684": "chain saw",
                    "n03028079": "church",
                    "n03394916": "French horn",
                    "n03417042": "garbage truck",
                    "n03425413": "gas pump",
                    "n03445777": "golf ball",
                    "n03888257": "parachute",
                }
            ),
        ),
    ),
    downloads=(
        Download(
            url=f"{FAST_AI}/imagenette2-320.tgz",
            path="imagenette2-320.tgz",
            bytes=341_663_724,
            md5="3df6f0d01a2c9592104656642f5e78a3",
        ),
    ),
    home="https://github.com/fastai/imagenette",
    licence="Apache 2.0; the images under the terms of ImageNet",
)


def _idx_downloads(place: str, folder: str, files: Mapping[str, tuple[int, str]]) -> tuple[Download, ...]:
    return tuple(
        Download(url=f"{place}/{name}-ubyte.gz", path=f"{folder}/{name}-ubyte.gz", bytes=size, md5=md5)
        for name, (size, md5) in files.items()
    )


MNIST = Source(
    name="mnist",
    title="MNIST",
    size=(28, 28, 1),
    classes=10,
    train=60_000,
    test=10_000,
    mean=(0.1307,),
    std=(0.3081,),
    layouts=(Idx(roots=("mnist", "MNIST/raw", "MNIST"), classes=tuple("0123456789"), size=(28, 28)),),
    downloads=_idx_downloads(
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        "mnist",
        {
            "train-images-idx3": (9_912_422, "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
            "train-labels-idx1": (28_881, "d53e105ee54ea40749a09fcbcd1e9432"),
            "t10k-images-idx3": (1_648_877, "9fb629c4189551a2d022fa330f9573f3"),
            "t10k-labels-idx1": (4_542, "ec29112dd5afa0611ce80d1b7f02629c"),
        },
    ),
    home="http://yann.lecun.com/exdb/mnist/",
    licence="none stated; cite LeCun, Cortes, Burges, The MNIST database of handwritten digits",
)

FASHION_MNIST = Source(
    name="fashion-mnist",
    title="Fashion-MNIST",
    size=(28, 28, 1),
    classes=10,
    train=60_000,
    test=10_000,
    mean=(0.2860,),
    std=(0.3530,),
    layouts=(
        Idx(
            roots=("fashion-mnist", "FashionMNIST/raw", "FashionMNIST"),
            classes=(
                "T-shirt/top",
                "trouser",
                "pullover",
                "dress",
                "coat",
                "sandal",
                "shirt",
                "sneaker",
                "bag",
                "ankle boot",
            ),
            size=(28, 28),
        ),
    ),
    downloads=_idx_downloads(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        "fashion-mnist",
        {
            "train-images-idx3": (26_421_880, "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
            "train-labels-idx1": (29_515, "25c81989df183df01b3e8a0aad5dffbe"),
            "t10k-images-idx3": (4_422_102, "bef4ecab320f06d8554ea6380940ec79"),
            "t10k-labels-idx1": (5_148, "bb300cfdad3c16e7a12a480ee83cd310"),
        },
    ),
    home="https://github.com/zalandoresearch/fashion-mnist",
    licence="MIT",
)

DIGITS = Source(
    name="digits",
    title="scikit-learn digits",
    size=(8, 8, 1),
    classes=10,
    train=1_297,
    test=500,
    mean=None,
    std=None,
    layouts=(Digits(),),
    home="https://archive.ics.uci.edu/dataset/80/optical+recognition+of+handwritten+digits",
    licence="CC BY 4.0; comes with scikit-learn",
)

FOLDER = Source(
    name="folder",
    title="your own images (folder:SIDE chooses their size)",
    size=None,
    classes=None,
    train=None,
    test=None,
    mean=None,
    std=None,
    layouts=(ClassFolders(roots=(".",)),),
    home="",
    licence="your own",
)


def _check_source(name: str, found: Any) -> str:
    """Return why a data set cannot be found by its name."""
    if not isinstance(found, Source):
        return f"it must be an adaste.data.Source, got {found!r}"
    if found.name != name:
        return f"the entry point must have the name of its data set, {found.name!r}"
    if ":" in name:
        return "the name of a data set must not contain a colon, which stands before the side of one's own images"
    return ""


SOURCES: Registry[Source] = Registry(
    MappingProxyType(
        {
            source.name: source
            for source in (CIFAR10, CIFAR100, TINY_IMAGENET, IMAGENETTE, MNIST, FASHION_MNIST, DIGITS, FOLDER)
        }
    ),
    {"adaste.data": _check_source},
)
"""The data sets by name: those above, and those that installed packages bring (docs/plugins.md)."""
