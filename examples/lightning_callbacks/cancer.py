"""A trainer with callbacks as a training function: Lightning reports through one of them.

It needs one more package: pip install -e ".[examples]" -c constraints.txt
"""

import lightning
import torch
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.utils.data import DataLoader, TensorDataset


def train(
    run, *, dropout: float = 0.0, learning_rate: float = 0.003, width: int = 64, epochs: int = 6
) -> None:
    """Train a network of one hidden layer to tell malignant from benign tumours."""
    torch.set_num_threads(run.threads)
    torch.manual_seed(run.seed)
    seen, held_out, test = tumours()
    trainer = lightning.Trainer(
        max_epochs=epochs,
        accelerator="gpu" if run.device == "cuda" else "cpu",
        devices=1,
        callbacks=[Report(run, test)],
        logger=False,  # MLflow gets the figures from the study
        enable_checkpointing=False,  # after a crash such a short training begins again
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    order = torch.Generator().manual_seed(run.seed)
    batches = DataLoader(seen, batch_size=16, shuffle=True, generator=order)
    trainer.fit(Classifier(dropout, learning_rate, width), batches, DataLoader(held_out, 200))


class Report(lightning.Callback):
    """Reports each epoch. Where the search stops the trial, report raises study.Stopped.

    Nothing here or in Lightning may hold that back: it ends the training.
    """

    def __init__(self, run, test: TensorDataset) -> None:
        self.run, self.test = run, test

    def on_validation_epoch_end(self, trainer, module) -> None:
        epoch = trainer.current_epoch + 1  # Lightning counts from 0
        metrics = {"val/loss": trainer.callback_metrics["loss"]}
        if epoch == trainer.max_epochs and self.run.read_test:
            metrics["test/loss"] = module.loss([part.to(module.device) for part in self.test[:]])
        self.run.report(epoch, metrics)


class Classifier(lightning.LightningModule):
    """The network, its loss and its optimizer."""

    def __init__(self, dropout: float, learning_rate: float, width: int) -> None:
        super().__init__()
        self.learning_rate = learning_rate
        hidden = [nn.Linear(30, width), nn.ReLU(), nn.Dropout(dropout)]
        self.layers = nn.Sequential(*hidden, nn.Linear(width, 1), nn.Flatten(0))

    def loss(self, batch) -> torch.Tensor:
        return binary_cross_entropy_with_logits(self.layers(batch[0]), batch[1])

    def training_step(self, batch, _):
        return self.loss(batch)

    def validation_step(self, batch, _):
        self.log("loss", self.loss(batch))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.learning_rate)


def tumours() -> list[TensorDataset]:
    """Training, validation and test split; always the same."""
    features, malignant = load_breast_cancer(return_X_y=True)
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    rest, test, rest_labels, test_labels = train_test_split(
        features, malignant, test_size=200, random_state=0, stratify=malignant
    )
    seen, held_out, seen_labels, held_out_labels = train_test_split(
        rest, rest_labels, test_size=150, random_state=0, stratify=rest_labels
    )
    splits = ((seen, seen_labels), (held_out, held_out_labels), (test, test_labels))
    return [TensorDataset(torch.tensor(x).float(), torch.tensor(y).float()) for x, y in splits]
