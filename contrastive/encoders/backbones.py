"""The backbones: images to representations h; built in, published or the user's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from contrastive.catalogue import ENCODER_NAMES, PartError, part


def small_cnn(channels: int) -> tuple[nn.Module, int]:
    """Three strided convolutions and a global mean: an encoder for two CPU cores.

    Stride 2 from the first layer on: on a CPU an epoch of 16×16 images then costs an eighth of
    what the same network costs with pooling after full-resolution convolutions.

    Args:
        channels: of the input images.

    Returns:
        backbone (B, channels, H, W) -> (B, 128), H and W >= 4; and its width, 128.
    """
    widths = (32, 64, 128)
    layers: list[nn.Module] = []
    for width_in, width in zip((channels, *widths), widths, strict=False):
        layers += [
            nn.Conv2d(width_in, width, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
        ]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()), widths[-1]


def resnet18(channels: int) -> tuple[nn.Module, int]:
    """torchvision's ResNet-18 with the CIFAR stem; (B, C, H, W) -> (B, 512)."""
    return _cifar_resnet("resnet18", channels)


def resnet50(channels: int) -> tuple[nn.Module, int]:
    """torchvision's ResNet-50 with the CIFAR stem; (B, C, H, W) -> (B, 2048)."""
    return _cifar_resnet("resnet50", channels)


def _cifar_resnet(name: str, channels: int) -> tuple[nn.Module, int]:
    # Imported here: torchvision costs a worker 3 s and 95 MB that small_cnn does not need.
    from torchvision import models

    backbone = models.get_model(name, weights=None)
    width = backbone.fc.in_features
    # Chen et al. 2020, B.9: "we replace the first 7x7 Conv of stride 2 with 3x3 Conv of
    # stride 1, and also remove the first max pooling operation".
    backbone.conv1 = nn.Conv2d(channels, 64, 3, stride=1, padding=1, bias=False)
    backbone.maxpool = nn.Identity()
    backbone.fc = nn.Identity()
    return backbone, width


ENCODERS: dict[str, Callable[[int], tuple[nn.Module, int]]] = {
    "small_cnn": small_cnn,
    "resnet18": resnet18,
    "resnet50": resnet50,
}


def encoder_named(name: str) -> Callable[[int], tuple[nn.Module, int]]:
    """The encoder's function, channels -> (backbone, width): built in, published or the user's own.

    Raises:
        PartError: unknown, or its import fails.
    """
    return ENCODERS[name] if name in ENCODERS else part("encoders", name, ENCODER_NAMES)


def build_backbone(name: str, channels: int) -> tuple[nn.Module, int]:
    """The backbone of this name, with random weights, and its width; raises PartError."""
    found: Any = encoder_named(name)(channels)
    if name in ENCODERS:
        return found
    pair = isinstance(found, tuple) and len(found) == 2
    if not (pair and isinstance(found[0], nn.Module) and isinstance(found[1], int)):
        raise PartError(
            f"{name} returned {type(found).__name__}; allowed: (module, width), a torch.nn.Module "
            "that turns images (B, C, H, W) into (B, width), and that number"
        )
    return found
