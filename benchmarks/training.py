"""How long does an epoch take, beside a plain implementation of the published pipeline?

The published pipeline, as written here: PIL images through torchvision's transforms in DataLoader
workers, one encoder pass per view, a loss that concatenates, exponentiates and selects by mask, all
in float32. Ours: `contrastive.training`, everything else equal: encoder, batch, images, threads.
The two take turns; ratios are medians over neighbouring epochs.

    python benchmarks/training.py                        # small_cnn on two CPU cores, a minute
    python benchmarks/training.py --device cuda --all    # ResNet-18 at the preprint's scale
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator

import torch
from losses import masked_select
from torch import Tensor, nn
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset
from torch.utils.flop_counter import FlopCounterMode

from contrastive.config import TrainConfig
from contrastive.data import Dataset, Split
from contrastive.encoders import build_model
from contrastive.training import _Training


def synthetic(images: int, size: int = 32) -> Dataset:
    """Random colour images in CIFAR-10's shape: speed does not depend on what they show."""
    generator = torch.Generator().manual_seed(0)

    def split(count: int) -> Split:
        pixels = torch.randint(0, 256, (count, 3, size, size), generator=generator)
        return Split(pixels.to(torch.uint8), torch.arange(count) % 10)

    classes = tuple(str(i) for i in range(10))
    return Dataset("synthetic", split(images), split(images // 10), split(500), classes, "natural")


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


def compare(config: TrainConfig, data: Dataset, device: str, repeats: int, workers: int) -> str:
    """One row of the table."""
    training = _Training(config, 0, data, device)
    published = Published(config, data, device, workers)
    runs: dict[str, Callable[[], None]] = {"ours": training.run_epoch, "published": published.epoch}
    for run in runs.values():
        run()  # the first epoch warms up: kernels, workers, allocator
    rounds = [{name: _seconds(run, device) for name, run in runs.items()} for _ in range(repeats)]
    ours = statistics.median(r["ours"] for r in rounds)
    ratio = statistics.median(r["published"] / r["ours"] for r in rounds)
    views = training.steps * config.batch_size * (config.num_positives + 1)
    evaluation = _seconds(lambda: training.evaluate(), device)
    achieved = views * 3 * forward_flops(training) / ours
    return (
        f"| {config.encoder} | {config.batch_size} | {config.num_positives} | {device} | "
        f"{views / ours:,.0f} | {3600 / (ours + evaluation):,.0f} | {ratio:.1f}× | "
        f"{100 * evaluation / ours:.0f} % | {achieved / matmul_flops(device, config):.0%} |"
    )


def forward_flops(training: _Training) -> float:
    """Of one view through the encoder, by PyTorch's counter; a training step takes three times."""
    images = training.train.images[:2] / 255
    training.model.eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        training.model(training._normalise(images))
    return counter.get_total_flops() / 2


def matmul_flops(device: str, config: TrainConfig) -> float:
    """Arithmetic speed of a large matrix product, in the precision that training uses."""
    low = device == "cuda" and config.precision != "float32"
    size, dtype = (8192, torch.bfloat16) if low else (1024, torch.float32)
    a = torch.randn(size, size, device=device, dtype=dtype)
    times = [_seconds(lambda: a @ a, device) for _ in range(8)]
    return 2 * size**3 / statistics.median(times[2:])


def _seconds(run: Callable[[], object], device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    run()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def rows(args: argparse.Namespace) -> Iterator[str]:
    """The lines of the table."""
    threads = torch.get_num_threads()
    yield f"{args.images} images of 32×32, {threads} threads, torch {torch.__version__}"
    yield (
        "| encoder | batch | M | device | views/s | epochs/hour with kNN "
        "| faster than published by | evaluation / training | of a matmul's FLOP/s |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    data = synthetic(args.images)
    cells = [("small_cnn", 64, 1), ("small_cnn", 64, 4)]
    if args.all:
        cells = [("resnet18", 512, 1), ("resnet18", 512, 2), ("resnet18", 512, 4)]
    for encoder, batch, positives in cells:
        config = TrainConfig(
            dataset="cifar10",
            encoder=encoder,
            batch_size=batch,
            num_positives=positives,
            aggregation="loss_combination",
        )
        yield compare(config, data, args.device, args.repeats, args.workers)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--all", action="store_true", help="the preprint's scale instead")
    parser.add_argument("--images", type=int, default=None, help="2,000, or 45,000 with --all")
    parser.add_argument("--repeats", type=int, default=5, help="paired epochs (5)")
    parser.add_argument("--workers", type=int, default=2, help="of the published pipeline (2)")
    args = parser.parse_args()
    args.images = args.images or (45_000 if args.all else 2_000)
    if args.device == "cpu":
        torch.set_num_threads(2)
    for line in rows(args):
        print(line, flush=True)


if __name__ == "__main__":
    main()
