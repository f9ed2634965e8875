"""How many views a second does one core make, beside PIL, torchvision and kornia?

The listing of Chuang et al. 2020 on 32×32 colour images: random resized crop, mirroring, colour
jitter, grey scale, 3×3 Gaussian blur of half of the views. Every image has draws of its own, so
torchvision's transforms, which draw once per call, are called image by image. One thread each;
the variants take turns, and ratios are medians over neighbouring repeats.

    python benchmarks/augmentations.py            # a minute; kornia if it is installed
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from contrastive.augmentations import PIPELINES, draw_epoch

JITTER = (0.4, 0.4, 0.4, 0.1)


def ours(images: Tensor) -> Callable[[], object]:
    """This project's batched pipeline, draws included."""
    pipeline = PIPELINES["natural"]
    epochs = iter(range(10**9))

    def views() -> Tensor:
        draws = draw_epoch(pipeline.widths, seed=0, epoch=next(epochs), views=1, images=len(images))
        return pipeline(images / 255, draws, blur_prob=0.5)

    return views


def pillow(images: Tensor) -> Callable[[], object]:
    """The published way: PIL images through torchvision's transforms, one by one."""
    from torchvision import transforms as T
    from torchvision.transforms.functional import to_pil_image

    listing = T.Compose(
        [
            T.RandomResizedCrop(32),
            T.RandomHorizontalFlip(),
            T.RandomApply([T.ColorJitter(*JITTER)], p=0.8),
            T.RandomGrayscale(p=0.2),
            T.RandomApply([T.GaussianBlur(3)], p=0.5),
            T.ToTensor(),
        ]
    )
    pictures = [to_pil_image(image) for image in images]
    return lambda: torch.stack([listing(picture) for picture in pictures])


def torchvision_v2(images: Tensor) -> Callable[[], object]:
    """torchvision's v2 transforms on uint8 tensors, image by image."""
    from torchvision.transforms import v2

    listing = v2.Compose(
        [
            v2.RandomResizedCrop(32, antialias=False),
            v2.RandomHorizontalFlip(),
            v2.RandomApply([v2.ColorJitter(*JITTER)], p=0.8),
            v2.RandomGrayscale(p=0.2),
            v2.RandomApply([v2.GaussianBlur(3)], p=0.5),
            v2.ToDtype(torch.float32, scale=True),
        ]
    )
    return lambda: torch.stack([listing(image) for image in images])


def kornia(images: Tensor) -> Callable[[], object] | None:
    """kornia's batched augmentations with draws per image; None where it is not installed."""
    try:
        from kornia import augmentation as K
    except ImportError:
        return None
    listing = K.AugmentationSequential(
        K.RandomResizedCrop((32, 32), scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3)),
        K.RandomHorizontalFlip(p=0.5),
        K.ColorJitter(*JITTER, p=0.8),
        K.RandomGrayscale(p=0.2),
        K.RandomGaussianBlur((3, 3), (0.1, 2.0), p=0.5),
        same_on_batch=False,
    )
    return lambda: listing(images / 255)


VARIANTS: dict[str, Callable[[Tensor], Callable[[], object] | None]] = {
    "ours": ours,
    "PIL listing": pillow,
    "torchvision v2": torchvision_v2,
    "kornia": kornia,
}


def table(batch: int, repeats: int) -> Iterator[str]:
    """The lines of the table."""
    images = torch.randint(0, 256, (batch, 3, 32, 32), dtype=torch.uint8)
    made = {name: make(images) for name, make in VARIANTS.items()}
    runs = {name: run for name, run in made.items() if run is not None}
    for run in runs.values():
        run()
    rounds = [{name: _seconds(run) for name, run in runs.items()} for _ in range(repeats)]
    yield f"{batch} images of 32×32, one thread, {repeats} repeats, torch {torch.__version__}"
    yield "| variant | views/s | ours is faster by |"
    yield "|---|---|---|"
    for name in VARIANTS:
        if name not in runs:
            yield f"| {name} | not installed | |"
            continue
        speed = batch / statistics.median(r[name] for r in rounds)
        ratio = statistics.median(r[name] / r["ours"] for r in rounds)
        yield f"| {name} | {speed:,.0f} | {ratio:.1f}× |"


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=512, help="images per call (512)")
    parser.add_argument("--repeats", type=int, default=15, help="(15)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for line in table(args.batch, args.repeats):
        print(line, flush=True)


if __name__ == "__main__":
    main()
