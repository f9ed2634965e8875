"""The similarities of every view of every image to all the others, summed up per anchor.

This is where a contrastive loss spends its time and memory: everything else in this package works
on tensors of V·V·B numbers. So one (V·B)² product serves all pairs of views, half of it is left to
symmetry, its exponential overwrites it, and a gradient written by hand needs one further product.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

# |cosine| <= 1, so up to here exp(scale · cosine) lies in 1e-26 … 1e26, and neither sums of 10⁴ of
# them nor their reciprocals, weighted by a mean's 1/10⁵, leave the normal numbers of float32
# (1e-38 … 3e38): logsumexp's pass for the maximum is not needed.
LARGEST_SAFE_SCALE = 60.0

# Numbers in a temporary of the backward pass on a CPU: 1 MB of float32 stays in its cache and is
# reused from step to step, where fresh large memory costs as much as the arithmetic on it.
CPU_SCRATCH = 2**18


def similarities(
    z: Tensor,
    *,
    temperature: float,
    powers: tuple[float, ...] = (1.0,),
    left_out: tuple[Tensor | None, ...] = (),
    bounded: bool = True,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Similarities of positives, and log-sums of those of negatives, for each pair of views.

    With s = z_i[b]ᵀ z_j[c] / t, in the notation of the (V·B)² matrix of all s:

        positive[i, j, b]       = s(z_i[b], z_j[b])
        log_sums[k][i, j, b]    = log Σ_{c not left out} exp(powers[k] · s(z_i[b], z_j[c]))

    Args:
        z: (V, B, D) float32 or float64 embeddings.
        temperature: t > 0.
        powers: each > 0; (1,) for the plain sums, others for importance weights h^β.
        left_out: for each power a (B, B) bool, symmetric: images c that are not in the sum of b, b
            itself among them; something must be left to each b. None: b alone; (): for all powers.
        bounded: whether all |zᵀz'| <= 1, as for embeddings of unit length.

    Returns:
        positive (V, V, B), and one (V, V, B) of log-sums for each power.
    """
    left_out = left_out or (None,) * len(powers)
    if bounded and max(powers) / temperature <= LARGEST_SAFE_SCALE:
        positive, *log_sums = _LogSums.apply(z, 1 / temperature, powers, left_out)
        return positive, tuple(log_sums)
    return _with_maximum(z, 1 / temperature, powers, left_out)


class _LogSums(torch.autograd.Function):
    """Sums of exponentials without a maximum.

    The matrix is symmetric, so only its panels of rows of view i and columns of views i, i+1, …
    are computed and kept: (V + 1)/2V of the whole, for each power.
    """

    @staticmethod
    def forward(
        ctx: Any,
        z: Tensor,
        scale: float,
        powers: tuple[float, ...],
        left_out: tuple[Tensor | None, ...],
    ) -> tuple[Tensor, ...]:
        views, images, _ = z.shape
        positive, *sums = z.new_empty(1 + len(powers), views, views, images)
        exps = []
        for i in range(views):
            panel = torch.mm(z[i] * scale, z[i:].flatten(0, 1).T).view(images, -1, images)
            positive[i, i:] = positive[i:, i] = panel.diagonal(dim1=0, dim2=2)
            for k, (p, mask, sum_) in enumerate(zip(powers, left_out, sums, strict=True), 1):
                # A plain exponential that comes last overwrites the panel.
                exp = panel.exp_() if p == 1 and k == len(powers) else torch.mul(panel, p).exp_()
                _leave_out(exp, mask)
                sum_[i, i:] = exp.sum(2).T
                sum_[i + 1 :, i] = exp[:, 1:].sum(0)
                exps.append(exp)
        ctx.scale, ctx.powers = scale, powers
        ctx.save_for_backward(z, *sums, *exps)
        return positive, *(s.log() for s in sums)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_positive: Tensor, *grad_log_sums: Tensor) -> tuple[Any, ...]:
        n = len(ctx.powers)
        z, *saved = ctx.saved_tensors
        sums, exps = saved[:n], saved[n:]
        # d log_sum / d s = power · exp / sum; s(x, y) belongs to the anchors x and y alike, so
        # the gradient of s is exp · (weight of x's row + weight of y's row).
        weights = [
            g.mul(p).div_(s) for g, p, s in zip(grad_log_sums, ctx.powers, sums, strict=True)
        ]
        of_positive = grad_positive + grad_positive.transpose(0, 1)  # (V, V, B)
        grad = torch.zeros_like(z)
        views, images, _ = z.shape
        step = images if z.is_cuda else max(CPU_SCRATCH // (views * images), 1)
        # Autocast may be on around loss.backward(), and would round these products to 16 bits.
        with torch.autocast(z.device.type, enabled=False):
            for i in range(views):
                for start in range(0, images, step):
                    rows = slice(start, start + step)
                    panel = _weighted(exps[i * n][rows], weights[0], i, rows)
                    for k in range(1, n):
                        panel += _weighted(exps[i * n + k][rows], weights[k], i, rows)
                    panel.diagonal(start, dim1=0, dim2=2).add_(of_positive[i, i:, rows])
                    grad[i, rows].addmm_(panel.flatten(1), z[i:].flatten(0, 1))
                    grad[i + 1 :].flatten(0, 1).addmm_(panel[:, 1:].flatten(1).T, z[i, rows])
        return grad.mul_(ctx.scale), None, None, None


def _weighted(exp: Tensor, weight: Tensor, i: int, rows: slice) -> Tensor:
    """exp · (weight of the row + weight of the column) for rows of panel i: (rows, V - i, B)."""
    # Laid out beforehand: a sum of broadcast operands would not be contiguous, and the product
    # that follows would copy it.
    both = torch.empty_like(exp)
    return torch.add(weight[i, i:, rows].T.unsqueeze(2), weight[i:, i], out=both).mul_(exp)


def _with_maximum(
    z: Tensor, scale: float, powers: tuple[float, ...], left_out: tuple[Tensor | None, ...]
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The same by `torch.logsumexp`, for scales at which bare exponentials would overflow."""
    views, images, _ = z.shape
    flat = z.flatten(0, 1)
    logits = torch.mm(flat * scale, flat.T).view(views, images, views, images)
    positive = logits.diagonal(dim1=1, dim2=3)
    own = torch.eye(images, dtype=torch.bool, device=z.device)
    masks = ((own if mask is None else mask)[:, None, :] for mask in left_out)
    log_sums = (
        (logits * p).masked_fill(mask, float("-inf")).logsumexp(3)
        for p, mask in zip(powers, masks, strict=True)
    )
    return positive, tuple(x.transpose(1, 2) for x in log_sums)


def _leave_out(exp: Tensor, left_out: Tensor | None) -> None:
    """Set the exponentials (B, ·, B) that are left out of the sums to 0, in place."""
    if left_out is None:
        exp.diagonal(dim1=0, dim2=2).zero_()
    else:
        exp.masked_fill_(left_out[:, None, :], 0)
