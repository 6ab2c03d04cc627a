"""Augmentation of whole batches on the training device, with random numbers drawn once per epoch on the host.

    augmentation = Augmentation((Crop(padding=4), Flip()), mean=(0.49, 0.48, 0.45), std=(0.25, 0.24, 0.26))
    order = order_of_epoch(seed=0, epoch=epoch, count=len(images), batch=128)
    draws = augmentation.draw(seed=0, epoch=epoch, order=order, image_size=(32, 32))
    for step, chosen in enumerate(order):
        batch = augmentation.apply(images[chosen], labels[chosen], of_step(draws, step), torch.float32)
        loss(model(batch.images), batch.targets).backward()

A step is a pure function of its images and its draws: it is the same on every device, eager, compiled or captured in a
CUDA graph; a resumed run redraws the same epoch, and a rank takes its part of the draws of the global batch.
"""

from adaste.data.augment.augmentation import Augmentation, of_rank, of_step
from adaste.data.augment.pixels import CutMix, Cutout, Mixup, MixupOrCutMix, loss
from adaste.data.augment.spatial import CenterCrop, Crop, Flip, RandomResizedCrop
from adaste.data.augment.transform import Batch, Epoch, Targets, Transform, generator, order_of_epoch, steps_of_epoch

__all__ = [
    "Augmentation",
    "Batch",
    "CenterCrop",
    "Crop",
    "CutMix",
    "Cutout",
    "Epoch",
    "Flip",
    "Mixup",
    "MixupOrCutMix",
    "RandomResizedCrop",
    "Targets",
    "Transform",
    "generator",
    "loss",
    "of_rank",
    "of_step",
    "order_of_epoch",
    "steps_of_epoch",
]
