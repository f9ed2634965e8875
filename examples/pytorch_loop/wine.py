"""A plain PyTorch loop with checkpoints as a training function."""

import os

import torch
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn.functional import cross_entropy


def train(
    run, *, learning_rate: float = 0.03, momentum: float = 0.0, width: int = 16, epochs: int = 8
) -> None:
    """Train a small network to tell three wines apart; continue from the last checkpoint."""
    torch.set_num_threads(run.threads)
    torch.manual_seed(run.seed)  # the initial weights
    order = torch.Generator().manual_seed(run.seed)
    seen, held_out, test = wines()
    model = nn.Sequential(nn.Linear(13, width), nn.ReLU(), nn.Linear(width, 3)).to(run.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=momentum)

    first, checkpoint = 1, run.folder / "state.pt"
    if checkpoint.exists():
        state = torch.load(checkpoint, weights_only=True, map_location=run.device)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        order.set_state(state["order"].cpu())  # where the shuffling was
        first = state["epoch"] + 1

    for epoch in range(first, epochs + 1):
        for batch in torch.randperm(len(seen[0]), generator=order).split(16):
            optimizer.zero_grad()
            features, kinds = (part[batch].to(run.device) for part in seen)
            cross_entropy(model(features), kinds).backward()
            optimizer.step()
        metrics = {"val/loss": loss_on(model, held_out, run.device)}
        if epoch == epochs and run.read_test:
            metrics["test/loss"] = loss_on(model, test, run.device)
        run.report(epoch, metrics)  # first report, then save: see docs/workloads.md
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state | {"order": order.get_state(), "epoch": epoch}, f"{checkpoint}.part")
        os.replace(f"{checkpoint}.part", checkpoint)  # whole or not at all


def wines() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Training, validation and test split: features (N, 13) and kinds (N,); always the same."""
    features, kinds = load_wine(return_X_y=True)
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    rest, test, rest_kinds, test_kinds = train_test_split(
        features, kinds, test_size=50, random_state=0, stratify=kinds
    )
    seen, held_out, seen_kinds, held_out_kinds = train_test_split(
        rest, rest_kinds, test_size=40, random_state=0, stratify=rest_kinds
    )
    splits = ((seen, seen_kinds), (held_out, held_out_kinds), (test, test_kinds))
    return [(torch.tensor(x, dtype=torch.float32), torch.tensor(y)) for x, y in splits]


@torch.no_grad()
def loss_on(model: nn.Module, split: tuple[torch.Tensor, torch.Tensor], device: str) -> float:
    """Mean cross-entropy of a split, in nats."""
    features, kinds = (part.to(device) for part in split)
    return cross_entropy(model(features), kinds).item()
