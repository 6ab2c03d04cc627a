"""Small data sets in the layouts of their publishers, for tests anywhere: `from data.build import write_cifar10`.

Images are coarse noise around a colour of their class, so that a network can learn them.
"""

import gzip
import pickle
import shutil
import struct
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

CIFAR10_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
CIFAR100_NAMES = tuple(f"fine_{number}" for number in range(100))


def images_and_labels(count: int, classes: int, side: int, channels: int = 3, seed: int = 0) -> tuple[Any, Any]:
    """uint8 (count, side, side, channels) and labels, all classes equally often."""
    generator = np.random.default_rng(seed)
    labels = np.arange(count) % classes
    colours = np.random.default_rng(classes).integers(40, 216, (classes, 1, 1, channels))
    noise = generator.integers(-40, 40, (count, side, side, channels))
    return (colours[labels] + noise).astype(np.uint8), labels


def write_cifar10(
    folder: Path, train: int = 200, test: int = 100, layout: str = "binary", archive: bool = False
) -> tuple[Any, Any]:
    """CIFAR-10 with fewer images; gives the training images and labels."""
    images, labels = images_and_labels(train, 10, 32)
    batches = {
        f"data_batch_{number + 1}": (part, part_labels)
        for number, (part, part_labels) in enumerate(
            zip(np.array_split(images, 5), np.array_split(labels, 5), strict=True)
        )
    }
    batches["test_batch"] = images_and_labels(test, 10, 32, seed=1)
    root = folder / {"binary": "cifar-10-batches-bin", "python": "cifar-10-batches-py"}[layout]
    root.mkdir(parents=True)
    for name, (part, part_labels) in batches.items():
        if layout == "binary":
            _write_records(root / f"{name}.bin", part_labels[:, np.newaxis], part)
        else:
            _write_pickle(root / name, {"data": _planes(part), "labels": part_labels.tolist(), "batch_label": name})
    if layout == "binary":
        (root / "batches.meta.txt").write_text("\n".join(CIFAR10_NAMES) + "\n\n")
    else:
        meta = {"label_names": list(CIFAR10_NAMES), "num_vis": 3072, "num_cases_per_batch": train // 5}
        _write_pickle(root / "batches.meta", meta)
    if archive:
        pack(root, folder / f"cifar-10-{layout}.tar.gz")
    return images, labels


def write_cifar100(
    folder: Path, train: int = 200, test: int = 100, layout: str = "binary", archive: bool = False
) -> tuple[Any, Any]:
    """CIFAR-100 with fewer images; gives the training images and fine labels."""
    root = folder / f"cifar-100-{layout}"
    root.mkdir(parents=True)
    parts = {"train": images_and_labels(train, 100, 32), "test": images_and_labels(test, 100, 32, seed=1)}
    for name, (images, fine) in parts.items():
        if layout == "binary":
            _write_records(root / f"{name}.bin", np.stack([fine // 5, fine], axis=1), images)
        else:
            content = {"data": _planes(images), "fine_labels": fine.tolist(), "coarse_labels": (fine // 5).tolist()}
            _write_pickle(root / name, content)
    if layout == "binary":
        (root / "fine_label_names.txt").write_text("\n".join(CIFAR100_NAMES) + "\n")
        (root / "coarse_label_names.txt").write_text("\n".join(f"coarse_{number}" for number in range(20)) + "\n")
    else:
        _write_pickle(root / "meta", {"fine_label_names": list(CIFAR100_NAMES), "coarse_label_names": ["coarse"] * 20})
    if archive:
        pack(root, folder / f"cifar-100-{layout}.tar.gz")
    return parts["train"]


def write_mnist(
    folder: Path, train: int = 200, test: int = 100, name: str = "mnist", zipped: bool = True
) -> tuple[Any, Any]:
    """MNIST, or with name="fashion-mnist" its look-alike; gives the training images and labels."""
    root = folder / name
    root.mkdir(parents=True)
    parts = {"train": images_and_labels(train, 10, 28, 1), "t10k": images_and_labels(test, 10, 28, 1, seed=1)}
    for part, (images, labels) in parts.items():
        write_idx(root / f"{part}-images-idx3-ubyte", images[..., 0], zipped)
        write_idx(root / f"{part}-labels-idx1-ubyte", labels, zipped)
    return parts["train"]


def write_idx(path: Path, values: Any, zipped: bool) -> None:
    header = bytes((0, 0, 8, values.ndim)) + struct.pack(f">{values.ndim}I", *values.shape)
    content = header + values.astype(np.uint8).tobytes()
    if zipped:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(content))
    else:
        path.write_bytes(content)


def write_tiny_imagenet(folder: Path, classes: int = 3, train: int = 4, test: int = 2, archive: bool = False) -> Path:
    """Tiny ImageNet with `train` and `test` images of each class, the first of them in grey; gives its folder."""
    root = folder / "tiny-imagenet-200"
    wnids = [f"n{number:08d}" for number in range(classes)]
    (root / "val" / "images").mkdir(parents=True)
    (root / "wnids.txt").write_text("".join(f"{wnid}\n" for wnid in reversed(wnids)))
    words = "".join(f"{wnid}\tword {wnid}, another word\n" for wnid in [*wnids, "n99999999"])
    (root / "words.txt").write_text(words)
    images, labels = images_and_labels(classes * (train + test), classes, 64)
    annotations = []
    for place, (image, label) in enumerate(zip(images, labels, strict=True)):
        wnid = wnids[label]
        if place < classes * train:
            path = root / "train" / wnid / "images" / f"{wnid}_{place}.JPEG"
        else:
            path = root / "val" / "images" / f"val_{place}.JPEG"
            annotations.append(f"{path.name}\t{wnid}\t0\t0\t63\t63\n")
        write_image(path, image, grey=place == 0)
    (root / "val" / "val_annotations.txt").write_text("".join(annotations))
    if archive:
        pack(root, folder / "tiny-imagenet-200.zip")
    return root


def write_class_folders(
    root: Path,
    classes: Sequence[str] = ("cat", "dog"),
    train: int = 4,
    test: int = 2,
    size: tuple[int, int] = (40, 30),
    test_folder: str = "val",
    suffix: str = ".png",
) -> Path:
    """`train`/<class>/ and `test_folder`/<class>/ with images of `size` (width, height); gives `root`."""
    for part, count in (("train", train), (test_folder, test)):
        images, labels = images_and_labels(count * len(classes), len(classes), max(size), seed=count)
        for place, (image, label) in enumerate(zip(images, labels, strict=True)):
            write_image(root / part / classes[label] / f"{place}{suffix}", image[: size[1], : size[0]])
    return root


def write_imagenette(folder: Path, name: str = "imagenette2-160", archive: bool = False) -> Path:
    """Two classes of Imagenette; gives its folder."""
    root = write_class_folders(folder / name, ("n01440764", "n03888257"), size=(200, 160), suffix=".JPEG")
    (root / "noisy_imagenette.csv").write_text("path,noisy_labels_0\n")
    if archive:
        pack(root, folder / f"{name}.tgz")
    return root


def write_image(path: Path, image: Any, grey: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = Image.fromarray(image)
    (picture.convert("L") if grey else picture).save(path)


def pack(root: Path, archive: Path) -> None:
    """Replace a folder by an archive of it."""
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
            for path in sorted(root.rglob("*")):
                file.write(path, path.relative_to(root.parent))
    else:
        with tarfile.open(archive, "w:gz") as file:
            file.add(root, root.name)
    shutil.rmtree(root)


def _planes(images: Any) -> Any:
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2)).reshape(len(images), -1)


def _write_records(path: Path, labels: Any, images: Any) -> None:
    np.concatenate([labels.astype(np.uint8), _planes(images)], axis=1).tofile(path)


def _write_pickle(path: Path, content: dict[str, Any]) -> None:
    path.write_bytes(pickle.dumps(content, protocol=2))
