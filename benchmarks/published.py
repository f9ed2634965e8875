"""How would a training run if it were written as the published code writes it?

PIL images through torchvision's transforms in DataLoader workers, one encoder pass per view, a loss
that concatenates, exponentiates and selects by mask, all in float32. Written for comparison with
`contrastive.training.loop`; encoder, batch, images and optimiser are the same.
"""

from __future__ import annotations

import torch
from losses import masked_select
from torch import Tensor, nn
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from contrastive.config import TrainConfig
from contrastive.data import Dataset
from contrastive.encoders import build_model


class Published:
    """The published pipeline; `epoch()` trains one."""

    def __init__(self, config: TrainConfig, data: Dataset, device: str, workers: int) -> None:
        self.config, self.device = config, torch.device(device)
        views = config.num_positives + 1
        self.loader = DataLoader(
            _PilViews(data.train.images, views),
            batch_size=config.batch_size,
            shuffle=True,
            drop_last=True,
            num_workers=workers,
            pin_memory=self.device.type == "cuda",
        )
        self.model: nn.Module = build_model(config.encoder, 3, config.projection_dim, seed=0)
        self.model.to(self.device)
        self.optimiser = torch.optim.Adam(
            self.model.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay
        )
        self.loss = masked_select(config.loss, config.batch_size, self.device)

    def epoch(self) -> None:
        """Train one epoch."""
        self.model.train()
        for views in self.loader:
            self.step(views)

    def step(self, views: list[Tensor]) -> None:
        """One step of the optimiser on the views of a batch, each (B, 3, H, W)."""
        z = torch.stack([self.model(view.to(self.device, non_blocking=True)) for view in views])
        loss = self.loss(z)
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        float(loss.detach())  # the published loop reads the loss at every step


class _PilViews(TorchDataset):
    def __init__(self, images: Tensor, views: int) -> None:
        from torchvision import transforms as T
        from torchvision.transforms.functional import to_pil_image

        self.pictures, self.views = [to_pil_image(image) for image in images], views
        self.listing = T.Compose(
            [
                T.RandomResizedCrop(32),
                T.RandomHorizontalFlip(),
                T.RandomApply([T.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8),
                T.RandomGrayscale(p=0.2),
                T.RandomApply([T.GaussianBlur(3)], p=0.5),
                T.ToTensor(),
                T.Normalize([0.4914, 0.4822, 0.4465], [0.2023, 0.1994, 0.2010]),
            ]
        )

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> list[Tensor]:
        return [self.listing(self.pictures[index]) for _ in range(self.views)]
