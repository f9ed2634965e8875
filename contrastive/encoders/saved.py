"""An encoder as a file: its weights, normalisation and settings, and how it is loaded again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from contrastive.encoders.backbones import build_backbone
from contrastive.encoders.inputs import Inputs, reduced_dtype
from contrastive.encoders.simclr import SimCLR

ENCODER_FILE = "encoder.safetensors"
BATCH = 512  # images, as in the evaluation: the same sums in the same order
_FORMAT = "contrastive encoder 1"
_BACKBONE = "backbone."
_SHOWN = 4  # files that a message lists


class EncoderFileError(ValueError):
    """A file that holds no encoder, or a folder that does not say which one is meant."""


class Encoder(nn.Module):
    """A trained encoder with the normalisation of its training images.

    Attributes:
        settings: of its training, by name.
        about: where it comes from: `arm`, `condition`, `replicate`, `seed`.
        width: of a representation.
    """

    def __init__(
        self,
        backbone: nn.Module,
        inputs: Inputs,
        *,
        width: int,
        settings: Mapping[str, Any],
        about: Mapping[str, Any],
    ) -> None:
        super().__init__()
        self.backbone, self.width = backbone, width
        self.settings, self.about = dict(settings), dict(about)
        self._inputs = inputs

    def forward(self, images: Tensor) -> Tensor:
        """Representations h of images, as the evaluation of the training computed them.

        Args:
            images: (N, C, H, W), uint8 or float in [0, 1]; scaled and normalised here. Only the
                size H × W of the training images gives the representations of the training.

        Returns:
            (N, width) float32.

        Raises:
            ValueError: another shape, or numbers outside of [0, 1].
        """
        images = self._checked(torch.as_tensor(images).to(self._inputs.mean.device))
        with self._inputs.autocast():
            parts = [
                self.backbone(self._inputs.normalise(part)).float() for part in images.split(BATCH)
            ]
        return torch.cat(parts)

    def _checked(self, images: Tensor) -> Tensor:
        channels = self._inputs.mean.shape[1]
        if images.ndim != 4 or images.shape[1] != channels or not len(images):
            raise ValueError(
                f"images are {tuple(images.shape)}; allowed: (N, {channels}, H, W), N >= 1"
            )
        if images.dtype == torch.uint8:
            return images / 255
        if not images.is_floating_point() or bool(((images < 0) | (images > 1)).any()):
            raise ValueError(
                f"images of {images.dtype} reach from {float(images.min()):g} to "
                f"{float(images.max()):g}; allowed: uint8, or float in [0, 1], not normalised"
            )
        return images.float()


def save_encoder(
    file: Path,
    model: SimCLR,
    inputs: Inputs,
    *,
    settings: Mapping[str, Any],
    about: Mapping[str, Any],
) -> None:
    """Write the backbone of a model, with what turns images into its inputs.

    Args:
        file: where to, `*.safetensors`.
        model: its projection head is left out: representations h are what is evaluated.
        inputs: of its training.
        settings, about: as in `Encoder`; plain JSON data.
    """
    # Copies: safetensors refuses weights that share memory, or lie channels last.
    weights = {
        f"{_BACKBONE}{name}": weight.detach().cpu().contiguous().clone()
        for name, weight in model.backbone.state_dict().items()
    }
    weights |= {"mean": inputs.mean.cpu().contiguous(), "std": inputs.std.cpu().contiguous()}
    description = {"settings": dict(settings), "about": dict(about)}
    metadata = {"format": _FORMAT, "description": json.dumps(description)}
    file.write_bytes(save(weights, metadata))  # a full disk is an OSError, as everywhere else


def load_encoder(path: str | Path, *, device: torch.device | str = "cpu") -> Encoder:
    """An encoder that a run of a study kept (`confirm: {keep: [encoder]}`), ready to be used.

    Args:
        path: its file, or a folder with one encoder in it or below it.
        device: where it computes.

    Returns:
        The encoder in evaluation mode.

    Raises:
        EncoderFileError: there is no encoder, or there are several, or the file is damaged.
        PartError: its backbone is a function of the user's own that cannot be imported.

    Example:
        >>> from contrastive import load_encoder
        >>> model = load_encoder("studies/pos/kept/confirm/001/debiased_pos/clean")
        >>> h = model(images)
    """
    file = _file(Path(path))
    weights, description = _read(file)
    settings = description["settings"]
    mean, std = (weights.pop(name).to(device) for name in ("mean", "std"))
    backbone, width = build_backbone(settings["encoder"], mean.shape[1])
    try:
        backbone.load_state_dict({n.removeprefix(_BACKBONE): w for n, w in weights.items()})
    except RuntimeError as error:
        first = str(error).splitlines()[-1].strip()
        raise EncoderFileError(
            f"{file}: its weights do not fit the encoder {settings['encoder']} as it is now: "
            f"{first}\n  try: the version of its code with which it was trained"
        ) from None
    backbone = backbone.to(device=device, memory_format=torch.channels_last)
    reduced = reduced_dtype(settings.get("precision", "auto"), torch.device(device))
    encoder = Encoder(
        backbone, Inputs(mean, std, reduced), width=width, settings=settings,
        about=description["about"],
    )  # fmt: skip
    return encoder.eval()


def _file(path: Path) -> Path:
    if path.is_file():
        return path
    found = sorted(path.rglob(ENCODER_FILE)) if path.is_dir() else []
    if len(found) == 1:
        return found[0]
    if not path.exists():
        raise EncoderFileError(f"{path} does not exist\n  try: the folder of a run that kept one")
    if not found:
        raise EncoderFileError(
            f"{path} has no {ENCODER_FILE} in it or below it\n"
            "  try: confirm: {keep: [encoder]} in the study file, before its confirmation"
        )
    more = f", and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    listed = "".join(f"\n  {file.parent}" for file in found[:_SHOWN])
    raise EncoderFileError(f"{len(found)} encoders are below {path}; name one of{listed}{more}")


def _read(file: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    try:
        with safe_open(file, "pt") as content:
            metadata = content.metadata() or {}
            if metadata.get("format") == _FORMAT:
                weights = {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118
                return weights, json.loads(metadata["description"])
    except (SafetensorError, OSError, ValueError) as error:
        first = str(error).splitlines()[0]
        raise EncoderFileError(
            f"{file} is damaged: {first}\n  try: the run's artifact in MLflow, or another run's"
        ) from None
    raise EncoderFileError(
        f"{file} is no encoder that a study kept\n  allowed: files called {ENCODER_FILE}"
    )
