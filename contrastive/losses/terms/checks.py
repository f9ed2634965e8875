"""The checks of the losses' arguments, and their messages."""

from __future__ import annotations

import math

from torch import Tensor

AGGREGATIONS = ("pos_grouping", "loss_combination")
FALSE_NEGATIVES = ("keep", "drop")
NEGATIVES = ("both", "across")
FLOORS = ("clamp", "biased", "positive")
FORMULAS = ("published", "notebook")


def check_views(views: Tensor) -> None:
    """Refuse anything but floating embeddings (V, B, D) of V >= 2 views of B >= 2 images."""
    if views.ndim != 3 or 0 in views.shape or not views.is_floating_point():
        raise ValueError(
            f"views is {views.dtype} of shape {tuple(views.shape)}; allowed: floating point of "
            "shape (V, B, D), V views of each of B images; try: torch.stack([z_0, z_1])"
        )
    if views.shape[0] < 2:
        raise ValueError("views holds 1 view of each image; allowed: at least 2, a positive needs "
                         "another view of its anchor's image")  # fmt: skip
    if views.shape[1] < 2:
        raise ValueError("views holds 1 image; allowed: at least 2, a negative needs another "
                         "image; try: drop the last, incomplete batch")  # fmt: skip


def check_labels(labels: Tensor | None, views: Tensor, wanted_by: str) -> Tensor:
    """`labels` on the device of `views`; refused unless they are B integers."""
    if labels is None:
        raise ValueError(f"labels is None, but {wanted_by} needs them; allowed: (B,) integers, "
                         "-1 for an unlabelled image")  # fmt: skip
    images = views.shape[1]
    if labels.shape != (images,) or labels.is_floating_point() or labels.is_complex():
        raise ValueError(
            f"labels is {labels.dtype} of shape {tuple(labels.shape)}; allowed: integers of "
            f"shape ({images},), one for each image, -1 for an unlabelled one"
        )
    return labels.to(views.device)


def check_number(name: str, value: float, allowed: str, inside: bool) -> None:
    """Refuse a `value` that is not `inside` its range, or not finite."""
    if not inside or not math.isfinite(value):
        raise ValueError(f"{name} is {value}; allowed: {allowed}")


def check_temperature(temperature: float) -> None:
    """Refuse t <= 0."""
    check_number("temperature", temperature, "a finite number > 0", temperature > 0)


def check_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    """Refuse a `value` that is not among the `allowed` ones."""
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}; allowed: {', '.join(map(repr, allowed))}")


def check_floor(floor: str, normalise: bool) -> None:
    """Refuse an unknown floor, and one that holds for unit length only where there is none."""
    check_choice("floor", floor, FLOORS)
    if floor != "positive" and not normalise:
        raise ValueError(
            f"floor is {floor!r}, the least that an estimate from embeddings of unit length can be,"
            " and normalise is False; allowed: floor 'positive', or normalise True"
        )
