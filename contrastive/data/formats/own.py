"""A dataset that a function of the user's returns: arrays by split.

    def load():
        return {"train": (images, labels), "test": (images, labels)}

Also by key, all of them optional: "val" and "unlabelled" (images alone), "classes" (names),
"augmentation" ("natural", the default, or "digits").
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from contrastive.data.formats.base import Decoded, Format, check_labels, whole
from contrastive.data.types import DataError
from contrastive.messages import nearest, with_place

SPLITS = ("train", "val", "test", "unlabelled")
KEYS = (*SPLITS, "classes", "augmentation")
AUGMENTATIONS = ("natural", "digits")
FORM = (
    '{"train": (images, labels), "test": (images, labels)}, images uint8 (N, H, W), (N, H, W, C) '
    "or (N, C, H, W), labels whole numbers (N,)"
)


def loaded(name: str, function: Callable[[], Any]) -> tuple[Format, str]:
    """Call the function, once.

    Args:
        name: `module:function`, for messages.
        function: takes nothing.

    Returns:
        a format without files that has what was returned, and the sha256 of that.

    Raises:
        DataError: the function fails, or returns something else than it should.
    """
    try:
        returned = function()
    except Exception as error:  # whatever the user's function raises
        file = getattr(getattr(function, "__code__", None), "co_filename", None)
        raise DataError(f"dataset {name} fails: {with_place(error, file)}") from error
    if not isinstance(returned, Mapping) or "train" not in returned:
        raise _fault(name, f"returned {type(returned).__name__} without a split train")
    for key in returned:
        if key not in KEYS:
            near = nearest(key, KEYS)
            hint = f"\n  try: {near}" if near else ""
            raise _fault(name, f"returned the unknown key {key!r}", ", ".join(KEYS), hint)
    splits = {s: _arrays(name, s, returned[s]) for s in SPLITS if s in returned}
    shapes = {images.shape[1:] for images, _ in splits.values()}
    if len(shapes) > 1:
        raise _fault(name, f"returned images of several shapes (C, H, W): {sorted(shapes)}")
    (shape,) = shapes
    classes = _classes(name, returned.get("classes"), splits)
    augmentation = returned.get("augmentation", "natural")
    if augmentation not in AUGMENTATIONS:
        raise _fault(name, f"returned augmentation {augmentation!r}", " or ".join(AUGMENTATIONS))
    layout = Format(
        hint="nothing: a function returns the images",
        find=lambda root: [],
        decode=lambda root, files, size: Decoded(
            classes, shape, {s: whole(*arrays) for s, arrays in splits.items()}, augmentation
        ),
    )
    return layout, _sha256(splits, classes, augmentation)


def _arrays(name: str, split: str, pair: Any) -> tuple[np.ndarray, np.ndarray]:
    """Images (N, C, H, W) uint8 and labels (N,) int64 of one split, checked."""
    if split == "unlabelled":
        pair = (pair, np.full(len(pair) if hasattr(pair, "__len__") else 0, -1))
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise _fault(name, f"returned {type(pair).__name__} as the split {split}")
    try:
        images, labels = np.asarray(pair[0]), np.asarray(pair[1])
    except Exception as error:  # rows of different lengths; tensors that NumPy cannot read
        what = f"{split}: images or labels are no arrays ({str(error)[:200]})"
        raise _fault(name, what) from error
    if images.dtype != np.uint8 or images.ndim not in (3, 4) or images.size == 0:
        raise _fault(name, f"{split}: the images are {images.dtype} of shape {images.shape}")
    if labels.shape != (len(images),) or not np.issubdtype(labels.dtype, np.integer):
        raise _fault(
            name,
            f"{split}: the labels are {labels.dtype} of shape {labels.shape}, "
            f"for {len(images)} images",
        )
    if int(labels.max()) > np.iinfo(np.int64).max:
        raise _fault(name, f"{split}: the label {labels.max()} is no class")
    return _channels_first(name, split, images), labels.astype(np.int64)


def _channels_first(name: str, split: str, images: np.ndarray) -> np.ndarray:
    if images.ndim == 3:
        return images[:, None]
    first, last = (images.shape[axis] in (1, 3) for axis in (1, 3))
    if first:  # also where both could be: that is what PyTorch's images look like
        return images
    if last:
        return np.moveaxis(images, 3, 1)
    raise _fault(name, f"{split}: the images of shape {images.shape} have neither 1 nor 3 channels")


def _classes(
    name: str, names: Any, splits: Mapping[str, tuple[np.ndarray, np.ndarray]]
) -> tuple[str, ...]:
    highest = max(int(labels.max()) for _, labels in splits.values())
    if highest < 0:
        raise _fault(name, "no image has a label", "classes 0, 1, …; -1 for some training images")
    check_labels(f"dataset {name}", highest, len(splits["train"][1]))
    if min(int(labels.min()) for _, labels in splits.values()) < -1 or highest < 1:
        raise _fault(name, "the labels are of fewer than two classes, or below -1 (unlabelled)")
    if names is None:
        return tuple(map(str, range(highest + 1)))
    try:
        names = tuple(map(str, names))
    except Exception as error:
        raise _fault(name, f"returned {type(names).__name__} as classes", "names") from error
    if len(names) <= highest:
        raise _fault(name, f"returned {len(names)} classes for labels up to {highest}")
    return names


def _sha256(
    splits: Mapping[str, tuple[np.ndarray, np.ndarray]], classes: tuple[str, ...], kind: str
) -> str:
    digest = hashlib.sha256(repr((classes, kind)).encode())
    for split, arrays in splits.items():
        for array in arrays:
            digest.update(f"{split} {array.dtype} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _fault(name: str, what: str, allowed: str = FORM, more: str = "") -> DataError:
    return DataError(f"dataset {name}: {what}\n  allowed: {allowed}{more}")
