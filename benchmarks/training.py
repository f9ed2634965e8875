"""How long does an epoch take, beside a plain implementation of the published pipeline?

The published pipeline is in `published.py`. Ours is `contrastive.training.loop` in several
variants: float32, bfloat16, and either with a compiled encoder. The runs of a cell take turns;
ratios are medians over neighbouring epochs of one run. Compiling is timed apart, in its variant's
first epoch.

    python benchmarks/training.py                        # small_cnn on two CPU cores, minutes
    python benchmarks/training.py --device cuda --all    # ResNet-18 at the preprint's scale
    python benchmarks/training.py --figure               # and draw docs/figures/training.svg
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from losses import live_peak
from published import Published

from contrastive.config import TrainConfig
from contrastive.data import Dataset, Split
from contrastive.training.compiled import GPU_FLOPS_PER_S, REPAID_AFTER_S
from contrastive.training.flops import flops_per_view
from contrastive.training.length import views_per_step
from contrastive.training.loop import _Training, train

FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "training.svg"

PUBLISHED = "published"
VARIANTS = {
    "float32": {"precision": "float32", "compile": "off"},
    "float32+compile": {"precision": "float32", "compile": "on"},
    "bfloat16": {"precision": "bfloat16", "compile": "off"},
    "bfloat16+compile": {"precision": "bfloat16", "compile": "on"},
}


@dataclass(frozen=True)
class Row:
    """What was measured of one variant in one cell; seconds are medians."""

    config: TrainConfig
    device: str
    variant: str
    epoch_s: float
    evaluation_s: float | None  # with kNN, on the validation split
    first_epoch_s: float  # compiling included
    views: int  # of an epoch
    faster: float | None  # than the published pipeline
    utilisation: float  # of a matrix product's FLOP/s, in the same precision
    peak_bytes: int  # live tensors of one step

    @property
    def cell(self) -> str:
        """Encoder, batch and M."""
        c = self.config
        return f"{c.encoder}, batch {c.batch_size}, M = {c.num_positives}"


def synthetic(images: int, size: int = 32) -> Dataset:
    """Random colour images in CIFAR-10's shape: speed does not depend on what they show."""
    generator = torch.Generator().manual_seed(0)

    def split(count: int) -> Split:
        pixels = torch.randint(0, 256, (count, 3, size, size), generator=generator)
        return Split(pixels.to(torch.uint8), torch.arange(count) % 10)

    classes = tuple(str(i) for i in range(10))
    return Dataset("synthetic", split(images), split(images // 9), split(500), classes, "natural")


def measure(config: TrainConfig, data: Dataset, args: argparse.Namespace) -> list[Row]:
    """The rows of one cell."""
    device = args.device
    ours = {
        name: _Training(replace(config, **settings), 0, data, device)
        for name, settings in VARIANTS.items()
        if name in args.variants
    }
    runs: dict[str, Callable[[], None]] = {n: training.run_epoch for n, training in ours.items()}
    if args.published:
        published = Published(config, data, device, args.workers)
        runs[PUBLISHED] = published.epoch
    # The first epoch warms up: kernels, workers, allocator, compiler.
    first = {name: _seconds(run, device) for name, run in runs.items()}
    rounds = [{n: _seconds(run, device) for n, run in runs.items()} for _ in range(args.repeats)]
    steps = {name: _one_step(training) for name, training in ours.items()}
    if args.published:
        batch = next(iter(published.loader))
        steps[PUBLISHED] = lambda: published.step(batch)
    cost = flops_per_view(config.encoder, tuple(data.train.images.shape[1:]), config.projection_dim)
    views = len(data.train) // config.batch_size * views_per_step(config)
    rows = []
    for name in runs:
        epoch_s = statistics.median(r[name] for r in rounds)
        ratios = [r[PUBLISHED] / r[name] for r in rounds] if args.published else None
        low = name.startswith("bfloat16")
        rows.append(
            Row(
                config=config,
                device=device,
                variant=name,
                epoch_s=epoch_s,
                evaluation_s=_seconds(ours[name].evaluate, device) if name in ours else None,
                first_epoch_s=first[name],
                views=views,
                faster=statistics.median(ratios) if ratios else None,
                utilisation=views * cost.training / epoch_s / matmul_flops(device, low=low),
                peak_bytes=live_peak(steps[name], torch.device(device)),
            )
        )
    return rows


def _one_step(training: _Training) -> Callable[[], object]:
    """A step on the first batch of the next epoch, its choices drawn beforehand."""
    batch = training.choices(training.epoch + 1).batch(0, training.config.batch_size)
    return lambda: training._step(*batch)


def matmul_flops(device: str, *, low: bool) -> float:
    """Arithmetic speed of a large matrix product, in bfloat16 if `low`, else in float32."""
    size = 8192 if device == "cuda" else 1024
    dtype = torch.bfloat16 if low else torch.float32
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


HEADER = (
    "| encoder | batch | M | device | variant | views/s | faster than published by "
    "| first epoch − epoch | evaluation / training | of a matmul's FLOP/s | peak of a step |"
)


def line(row: Row) -> str:
    """A row as Markdown."""
    c = row.config
    faster = "" if row.faster is None else f"{row.faster:.1f}×"
    share = "" if row.evaluation_s is None else f"{row.evaluation_s / row.epoch_s:.0%}"
    return (
        f"| {c.encoder} | {c.batch_size} | {c.num_positives} | {row.device} | {row.variant} | "
        f"{row.views / row.epoch_s:,.0f} | {faster} | {row.first_epoch_s - row.epoch_s:.1f} s | "
        f"{share} | {row.utilisation:.0%} | {row.peak_bytes / 2**20:,.0f} MiB |"
    )


def remarks(rows: list[Row]) -> Iterator[str]:
    """What the rows say together: M = 4 beside M = 1, and when compiling repays."""
    per_view = {(r.cell, r.variant): r.epoch_s / r.views for r in rows}
    for row in rows:
        c = row.config
        if c.num_positives == 1:
            four = f"{c.encoder}, batch {c.batch_size}, M = 4"
            if (four, row.variant) in per_view:
                ratio = per_view[four, row.variant] / per_view[row.cell, row.variant]
                yield f"M = 4 against M = 1 per view, {row.variant}: {ratio:.2f}×"
    by_name = {(r.cell, r.variant): r for r in rows}
    for row in rows:
        plain = by_name.get((row.cell, row.variant.removesuffix("+compile")))
        if plain is not None and plain is not row:
            saved = 1 - row.epoch_s / plain.epoch_s
            took = row.first_epoch_s - row.epoch_s
            gain = "saves nothing"
            if saved > 0:
                gain = f"saves {saved:.0%} of an epoch, repaid after {took / saved:,.0f} s"
            yield (
                f"compiling {row.cell}, {plain.variant}: {took:.0f} s, {gain} "
                f"(`auto` assumes {REPAID_AFTER_S:.0f} s at {GPU_FLOPS_PER_S:.0e} FLOP/s)"
            )


def goal(data: Dataset, args: argparse.Namespace, encoder: str, batch: int) -> Iterator[str]:
    """A whole training with kNN after each epoch: the goal is 75 s for 50 epochs on an H200."""
    low = [name for name in args.variants if name.startswith("bfloat16")]
    for name in low or args.variants:
        config = TrainConfig(
            dataset="cifar10", encoder=encoder, batch_size=batch, epochs=args.goal, **VARIANTS[name]
        )

        def whole(config: TrainConfig = config) -> None:
            for _ in train(config, 0, dataset=data, read_test=False, device=args.device):
                pass

        seconds = _seconds(whole, args.device)
        yield (
            f"{args.goal} epochs with kNN after each, {encoder}, batch {batch}, M = 1, "
            f"{args.device}, {name}: {seconds:,.1f} s, everything but loading the data included"
        )


def draw(rows: list[Row], file: Path) -> None:
    """Views per second of every row, one panel per cell."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from analysis.figures.style import COLOURS, RC, WIDTH

    cells = list(dict.fromkeys(row.cell for row in rows))
    colours = dict(zip([*VARIANTS, PUBLISHED], COLOURS, strict=False))
    with rc_context(RC):
        figure = Figure(figsize=(WIDTH, 0.6 + 0.28 * len(rows) + 0.5 * len(cells)))
        panels = figure.subplots(len(cells), 1, sharex=True, squeeze=False)[:, 0]
        for panel, cell in zip(panels, cells, strict=True):
            own = [row for row in rows if row.cell == cell][::-1]
            speeds = [row.views / row.epoch_s for row in own]
            names = [row.variant for row in own]
            bars = panel.barh(names, speeds, color=[colours[name] for name in names])
            told = [f"{s:,.0f}" + (f"  {r.faster:.1f}×" if r.faster else "")
                    for s, r in zip(speeds, own, strict=True)]  # fmt: skip
            panel.bar_label(bars, told, padding=3)
            panel.set_title(f"{cell}, {own[0].device}")
            panel.margins(x=0.2)
        panels[-1].set_xlabel("views per second of training; × faster than the published pipeline")
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, format="svg", metadata={"Date": None})


def main() -> None:
    """The command line."""
    args = _arguments()
    if args.device == "cpu":
        torch.set_num_threads(2)
        where = f"{torch.get_num_threads()} threads"
    else:
        where = torch.cuda.get_device_name()
    print(f"{args.images} images of 32×32, {where}, torch {torch.__version__}", flush=True)
    print(HEADER, "|" + "---|" * (HEADER.count("|") - 1), sep="\n", flush=True)
    data, rows = synthetic(args.images), []
    encoder, batch = (args.encoder, args.batch)
    for positives in args.positives:
        config = TrainConfig(
            dataset="cifar10",
            encoder=encoder,
            batch_size=batch,
            num_positives=positives,
            aggregation="loss_combination",
        )
        found = measure(config, data, args)
        rows += found
        print(*map(line, found), sep="\n", flush=True)
    for remark in remarks(rows):
        print(remark, flush=True)
    for remark in goal(data, args, encoder, batch) if args.goal else ():
        print(remark, flush=True)
    if args.figure:
        draw(rows, args.figure)
        print(f"drawn: {args.figure}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--all", action="store_true", help="the preprint's scale instead")
    parser.add_argument("--encoder", default=None, help="small_cnn, or resnet18 with --all")
    parser.add_argument("--batch", type=int, default=None, help="64, or 512 with --all")
    parser.add_argument("--positives", type=int, nargs="+", default=None, help="1 4, or 1 2 4")
    parser.add_argument("--images", type=int, default=None, help="2,000, or 45,000 with --all")
    parser.add_argument("--repeats", type=int, default=5, help="epochs of each, in turns (5)")
    parser.add_argument("--workers", type=int, default=None,
                        help="of the published pipeline; as many as cores, at most 16")  # fmt: skip
    parser.add_argument("--variants", nargs="+", default=None, choices=list(VARIANTS),
                        help="all; with --all not float32+compile")  # fmt: skip
    parser.add_argument("--no-published", dest="published", action="store_false")
    parser.add_argument("--goal", type=int, default=None, metavar="EPOCHS",
                        help="time whole trainings; 50 with --all, else none")  # fmt: skip
    parser.add_argument("--figure", type=Path, nargs="?", const=FIGURE, default=None)
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: there is no GPU here; allowed: cpu; try: --device cpu")
    most = [name for name in VARIANTS if name != "float32+compile"]
    at_scale = {"encoder": "resnet18", "batch": 512, "positives": [1, 2, 4], "images": 45_000,
                "goal": 50, "variants": most}  # fmt: skip
    small = {
        "encoder": "small_cnn",
        "batch": 64,
        "positives": [1, 4],
        "images": 2_000,
        "goal": 0,
        "variants": list(VARIANTS),
    }
    for name, value in (at_scale if args.all else small).items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    if args.workers is None:
        args.workers = min(16, len(os.sched_getaffinity(0)))
    return args


if __name__ == "__main__":
    main()
