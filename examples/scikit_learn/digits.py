"""A scikit-learn classifier as a training function: one pass over the data per epoch."""

from typing import Literal

from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler


def train(
    run,
    *,
    loss: Literal["hinge", "log_loss"] = "hinge",
    alpha: float = 1e-4,
    average: bool = False,
    epochs: int = 6,
) -> None:
    """Train a linear classifier of handwritten digits by stochastic gradient descent."""
    images, labels = load_digits(return_X_y=True)
    # The split is the same in every run; what varies is the seed of the training.
    rest, test, rest_labels, test_labels = train_test_split(
        images, labels, test_size=500, random_state=0, stratify=labels
    )
    seen, held_out, seen_labels, held_out_labels = train_test_split(
        rest, rest_labels, test_size=400, random_state=0, stratify=rest_labels
    )
    scale = StandardScaler().fit(seen).transform
    model = SGDClassifier(loss=loss, alpha=alpha, average=average, random_state=run.seed)
    for epoch in range(1, epochs + 1):
        model.partial_fit(scale(seen), seen_labels, classes=range(10))
        metrics = {"val/error": 1 - model.score(scale(held_out), held_out_labels)}
        if epoch == epochs and run.read_test:
            metrics["test/error"] = 1 - model.score(scale(test), test_labels)
        run.report(epoch, metrics)
