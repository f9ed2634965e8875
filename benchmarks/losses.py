"""How fast and how small are the losses beside straightforward implementations of them?

Forward and backward of one step, ours against (1) `masked_select`, written below in the shape of
the published code, and (2) `NTXentLoss` of lightly where that is installed. Timings alternate
between the variants, and each ratio is the median of the ratios of neighbouring repeats, so that a
machine that slows down slows both. Memory is the peak of live tensors, from PyTorch's own counter.

    python benchmarks/losses.py            # every size, a few minutes on one core
    python benchmarks/losses.py --quick    # B = 128 and 512, seconds
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

from contrastive.losses import contrastive, debiased_neg, debiased_pos

TEMPERATURE, TAU_PLUS = 0.5, 0.1  # of both debiased papers
EMBEDDING_DIM = 128
OURS = {"contrastive": contrastive, "debiased_neg": debiased_neg, "debiased_pos": debiased_pos}

Step = Callable[[Tensor], Tensor]


def masked_select(name: str, images: int, device: torch.device) -> Step:
    """The published shape of loss `name`: per pair, concatenate, exponentiate, select, sum.

    After github.com/chingyaoc/DCL, `main.py`, for every pair of views; the mask is made once here,
    which the published code does at each step.
    """
    mask = ~torch.eye(images, dtype=torch.bool, device=device).repeat(2, 2)

    def pair(z_i: Tensor, z_j: Tensor) -> Tensor:
        out = torch.cat([z_i, z_j])
        negatives = torch.exp(out @ out.T / TEMPERATURE).masked_select(mask).view(2 * images, -1)
        pos = torch.exp((z_i * z_j).sum(-1) / TEMPERATURE)
        pos = torch.cat([pos, pos])
        n, total = negatives.shape[1], negatives.sum(-1)
        if name == "debiased_neg":
            total = (total - TAU_PLUS * n * pos) / (1 - TAU_PLUS)
            total = total.clamp_min(n * math.exp(-1 / TEMPERATURE))
        if name == "debiased_pos":
            mean = (total + pos + math.exp(1 / TEMPERATURE)) / (n + 2)
            pos = mean - (1 - TAU_PLUS) * total / n
            total = TAU_PLUS * total
        return -torch.log(pos / (pos + total)).mean()

    def loss(views: Tensor) -> Tensor:
        z = F.normalize(views, dim=-1)
        pairs = [pair(z[i], z[j]) for i in range(len(z)) for j in range(i + 1, len(z))]
        return torch.stack(pairs).mean()

    return loss


def lightly() -> Step | None:
    """lightly's NT-Xent for two views, or None where lightly is not installed."""
    try:
        from lightly.loss import NTXentLoss
    except ImportError:
        return None
    loss = NTXentLoss(temperature=TEMPERATURE)
    return lambda views: loss(views[0], views[1])


def ours(name: str) -> Step:
    """Our loss `name` over all pairs of views."""
    options = {} if name == "contrastive" else {"tau_plus": TAU_PLUS}
    return lambda views: OURS[name](
        views, temperature=TEMPERATURE, aggregation="loss_combination", **options
    )


def run(step: Step, views: Tensor) -> float:
    """Seconds of one forward and backward pass."""
    views.grad = None
    synchronise(views.device)
    start = time.perf_counter()
    step(views).backward()
    synchronise(views.device)
    return time.perf_counter() - start


def synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def paired_times(steps: list[Step], views: Tensor, repeats: int) -> list[list[float]]:
    """Seconds per repeat of each step, the steps taking turns."""
    for step in steps:
        run(step, views)
    rounds = [[run(step, views) for step in steps] for _ in range(repeats)]
    return [list(column) for column in zip(*rounds, strict=True)]


def peak_bytes(step: Step, views: Tensor) -> int:
    """Largest sum of live tensors that one forward and backward pass allocates."""
    views.grad = None
    return live_peak(lambda: run(step, views), views.device)


def live_peak(act: Callable[[], object], device: torch.device) -> int:
    """Largest sum in bytes of the tensors that `act` allocates and that live at the same time."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        act()
        return torch.cuda.max_memory_allocated() - before
    with quiet(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as prof:
        act()
    live = peak = 0
    events = [e for e in prof.profiler.kineto_results.events() if e.name() == "[memory]"]
    for event in sorted(events, key=lambda e: e.start_ns()):
        live += event.nbytes()
        peak = max(peak, live)
    return peak


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without standard error, where the profiler's native code announces each start and stop."""
    kept = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def rows(sizes: list[tuple[int, int]], device: torch.device, seconds: float) -> Iterator[str]:
    """One line of the table for each size and loss."""
    rival = lightly()
    for images, n_views in sizes:
        generator = torch.Generator().manual_seed(0)
        views = torch.randn(n_views, images, EMBEDDING_DIM, generator=generator)
        views = views.to(device).requires_grad_()
        for name in OURS:
            steps = [ours(name), masked_select(name, images, device)]
            if rival and n_views == 2 and name == "contrastive":
                steps.append(rival)
            values = [step(views).item() for step in steps]
            if any(abs(v - values[0]) > 1e-4 * abs(values[0]) for v in values):
                raise AssertionError(f"{name}: the variants disagree: {values}")
            slowest = max(run(step, views) for step in steps)
            repeats = min(max(int(seconds / slowest / len(steps)), 5), 101)
            times = paired_times(steps, views, repeats)
            memory = [peak_bytes(step, views) for step in steps]
            yield line(name, images, n_views, times, memory)


def line(name: str, images: int, n_views: int, times: list[list[float]], memory: list[int]) -> str:
    """A row of the table, each ratio the other's figure over ours."""

    def ratio(k: int) -> str:
        if k >= len(times):
            return f"{'':>7} {'':>7}"
        speed = statistics.median(b / a for a, b in zip(times[0], times[k], strict=True))
        return f"{speed:7.2f} {memory[k] / memory[0]:7.2f}"

    own = f"{statistics.median(times[0]) * 1e3:9.2f} {memory[0] / 2**20:8.1f}"
    return f"{name:<13}{images:>5}{n_views:>3} {own}  {ratio(1)}  {ratio(2)}  {len(times[0]):>7}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="leave out B = 2048; fewer repeats")
    parser.add_argument("--device", default="cpu", help="cpu or cuda; default: cpu")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads; default: 1")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    device = torch.device(args.device)
    where = (
        torch.cuda.get_device_name() if device.type == "cuda" else f"{args.threads} CPU thread(s)"
    )
    print(f"torch {torch.__version__}, {where}, D = {EMBEDDING_DIM}, all pairs of views")
    if lightly() is None:
        print("lightly is not installed: its columns stay empty (pip install lightly)")
    print("ratios: the other's time or memory over ours; above 1, ours is faster or smaller")
    print(f"{'':>31}ours    masked_select          lightly")
    head = f"{'loss':<13}{'B':>5}{'V':>3} {'ms':>9} {'MiB':>8}  "
    print(head + "   time     mem     time     mem  repeats")
    batches = (128, 512) if args.quick else (128, 512, 2048)
    sizes = [(b, v) for b in batches for v in (2, 3, 5)]
    for row in rows(sizes, device, seconds=1.0 if args.quick else 6.0):
        print(row, flush=True)


if __name__ == "__main__":
    main()
