"""Is training several seeds in one process worth it? `python benchmarks/seeds_together.py`

The confirmation phase trains one configuration on many seeds. Here S models become one whose
convolutions are grouped, one group per seed, and S images stand side by side in the channels: one
kernel launch does the work of S. Compared, in pairs, with S models one after the other: encoder,
projection head, loss and Adam on batches that lie ready, so that only what stacking could speed up
is timed. Both must give the same embeddings first.

The figure that decides is the last column: under 1.3 the platform keeps one training per process.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from contrastive.encoders import ENCODERS, SimCLR, build_model
from contrastive.losses import LOSSES

VIEWS, STEPS, WARM_UP = 2, 8, 3


class StackedLinear(nn.Module):
    """S linear layers on S blocks of features; (B, S·in) -> (B, S·out)."""

    def __init__(self, layers: Sequence[nn.Linear]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.stack([layer.weight.detach().T for layer in layers]))
        biased = layers[0].bias is not None
        self.bias = (
            nn.Parameter(torch.stack([layer.bias.detach() for layer in layers])[:, None])
            if biased
            else None
        )

    def forward(self, features: Tensor) -> Tensor:
        """Apply each layer to its block."""
        blocks = features.unflatten(1, (len(self.weight), -1)).transpose(0, 1)  # (S, B, in)
        out = blocks @ self.weight if self.bias is None else self.bias + blocks @ self.weight
        return out.transpose(0, 1).flatten(1)


def stacked(models: Sequence[nn.Module]) -> nn.Module:
    """One module that does what `models` do, on their inputs side by side in the channels."""
    first = models[0]
    if isinstance(first, nn.Conv2d):
        conv = nn.Conv2d(
            first.in_channels * len(models),
            first.out_channels * len(models),
            first.kernel_size,
            first.stride,
            first.padding,
            groups=len(models),
            bias=first.bias is not None,
        )
        return _filled(conv, models)
    if isinstance(first, nn.BatchNorm2d | nn.BatchNorm1d):
        return _filled(type(first)(first.num_features * len(models)), models)
    if isinstance(first, nn.Linear):
        return StackedLinear(models)
    whole = copy.deepcopy(first)
    for name, _ in first.named_children():
        setattr(whole, name, stacked([getattr(model, name) for model in models]))
    return whole


def _filled(layer: nn.Module, models: Sequence[nn.Module]) -> nn.Module:
    """`layer` with the parameters of `models` one after the other."""
    states = [model.state_dict() for model in models]
    layer.load_state_dict(
        {
            name: value if value.ndim == 0 else torch.cat([state[name] for state in states])
            for name, value in states[0].items()
        }
    )
    return layer


def compare(encoder: str, seeds: int, batch: int, size: int, device: str, repeats: int) -> str:
    """One row of the table."""
    models = [build_model(encoder, 3, 128, seed=seed).to(device) for seed in range(seeds)]
    together = stacked(models).to(device)
    images = [torch.randn(VIEWS * batch, 3, size, size, device=device) for _ in models]
    _check(models, together, images)
    dtype = torch.bfloat16 if device.startswith("cuda") else None
    apart_step = _step(models, images, dtype)
    together_step = _step([together], [torch.cat(images, 1)], dtype, seeds=seeds)
    pairs = [
        (_seconds(apart_step, device), _seconds(together_step, device)) for _ in range(repeats)
    ]
    ratios = [apart / joint for apart, joint in pairs]
    views = seeds * VIEWS * batch / statistics.median(apart for apart, _ in pairs)
    return (
        f"| {encoder} | {seeds} | {batch} | {size} | {device} | {views:,.0f} | "
        f"{statistics.median(ratios):.2f}× ({min(ratios):.2f}–{max(ratios):.2f}) |"
    )


def _check(models: Sequence[SimCLR], together: nn.Module, images: Sequence[Tensor]) -> None:
    """The stack must compute what its models compute."""
    with torch.no_grad():
        apart = torch.cat([model.eval()(x) for model, x in zip(models, images, strict=True)], 1)
        torch.testing.assert_close(
            together.eval()(torch.cat(list(images), 1)), apart, rtol=1e-3, atol=1e-4
        )
    for model in (*models, together):
        model.train()


def _step(
    models: Sequence[nn.Module],
    images: Sequence[Tensor],
    dtype: torch.dtype | None,
    *,
    seeds: int = 1,
) -> Callable[[], None]:
    """A training step of all `models`, each of which holds `seeds` seeds."""
    device = images[0].device
    models = [m.to(memory_format=torch.channels_last) for m in models]
    images = [x.contiguous(memory_format=torch.channels_last) for x in images]
    optimisers = [torch.optim.Adam(model.parameters(), fused=True) for model in models]
    loss = LOSSES["contrastive"]

    def step() -> None:
        for model, batch, optimiser in zip(models, images, optimisers, strict=True):
            with torch.autocast(device.type, dtype=dtype or torch.bfloat16, enabled=bool(dtype)):
                embeddings = model(batch)
            parts = embeddings.float().chunk(seeds, dim=1)
            # The seeds' parameters are disjoint: the gradient of the sum is that of each.
            total = sum(loss(z.unflatten(0, (VIEWS, -1)), temperature=0.5) for z in parts)
            optimiser.zero_grad(set_to_none=True)
            total.backward()
            optimiser.step()

    for _ in range(WARM_UP):
        step()
    return step


def _seconds(step: Callable[[], None], device: str) -> float:
    """Of one step, the mean of several."""
    _wait(device)
    began = time.perf_counter()
    for _ in range(STEPS):
        step()
    _wait(device)
    return (time.perf_counter() - began) / STEPS


def _wait(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--encoders", nargs="+", choices=list(ENCODERS), default=["small_cnn"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[2, 4, 8])
    parser.add_argument("--batch", type=int, default=64, help="images per seed")
    parser.add_argument("--size", type=int, default=16, help="pixels of a side")
    parser.add_argument("--repeats", type=int, default=9)
    args = parser.parse_args(argv)
    torch.set_num_threads(1)  # as a trial on a CPU has it
    print("| encoder | seeds | batch | size | device | views/s apart | together faster by |")
    print("|---|---|---|---|---|---|---|")
    for encoder in args.encoders:
        for seeds in args.seeds:
            row = compare(encoder, seeds, args.batch, args.size, args.device, args.repeats)
            print(row, flush=True)


if __name__ == "__main__":
    main()
