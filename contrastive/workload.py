"""The contrastive workload: what a study needs to know of these trainings, and how it runs one.

`WORKLOAD` is plain data and functions; importing it does without PyTorch, which only `train`,
`seconds` and `try_parts` load.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from pydantic import ValidationError

from contrastive.catalogue import LOSS_OPTIONS, PartError, accepted, part
from contrastive.config import (
    ALLOWED,
    BUDGETS,
    SETTINGS,
    TrainConfig,
    conflict,
    needing_labels,
    selection,
)
from contrastive.config import settings as plain
from contrastive.data import (
    DATASETS,
    DataError,
    Dataset,
    image_shape,
    load_prepared,
    prepare,
    refuse_unlabelled,
    train_images,
    train_labels,
)
from contrastive.messages import nearest
from contrastive.parts import (
    OwnParts,
    SettingsError,
    own_parts,
    try_encoder,
    try_evaluation,
    try_loss,
)
from contrastive.training.length import batches, check_batch_fits, extent, views_per_step

if TYPE_CHECKING:
    from contrastive.training.evaluation import Count
    from contrastive.training.loop import EpochRecord

CHECKPOINT_EVERY_S = 30.0
STATE_FILE = "state.pt"
TIMED_BATCHES = 4

_DATA = (
    "dataset",
    "dataset_path",
    "split_seed",
    "train_limit",
    "imbalance",
    "image_size",
    "validation",
)
_JUDGING = ("epochs", "budget", "eval_every", "knn_neighbours", "knn_temperature", "evaluations")

# Trainings that differ in one of these cannot be compared by counting views: each is measured.
_KIND = (
    "dataset",
    "dataset_path",
    "train_limit",
    "imbalance",
    "image_size",
    "validation",
    "encoder",
    "projection_dim",
    "loss",
    "aggregation",
    "precision",
    "compile",
)

_ACCURACY = {"better": "higher", "unit": "fraction"}
METRICS: dict[str, dict[str, str]] = {
    "train/loss": {"better": "lower", "unit": "nats"},
    "val/knn_top1": _ACCURACY,
    "test/knn_top1": _ACCURACY,
    "test/knn_top5": _ACCURACY,
    "test/knn_worst_class": _ACCURACY,  # of the class with the lowest accuracy
    "test/linear_top1": _ACCURACY,  # and, per class, test/linear_top1/<class>
    "test/linear_top5": _ACCURACY,
    "test/linear_worst_class": _ACCURACY,
    "test/untrained_knn_top1": _ACCURACY,
    "test/alignment": {"better": "lower", "unit": ""},
    "test/uniformity": {"better": "lower", "unit": ""},
    # What `tau_plus: auto` came to, in the record of epoch 0: shown, never compared.
    "tau_plus": {"better": "lower", "unit": ""},
    "views": {"better": "lower", "unit": "views", "kind": "cost"},
    "flops": {"better": "lower", "unit": "FLOPs", "kind": "cost"},
    "seconds": {"better": "lower", "unit": "s", "kind": "cost"},
}


@dataclass(frozen=True, eq=False)
class Contrastive:
    """The workload; `WORKLOAD` is the one without parts of the user's own.

    Settings are mappings by name. Those given to `complete` hold only what was written or what
    the search drew; the other methods take these or what `complete` returned. Each method raises
    ValueError for impossible settings, with the attributes of `SettingsError`.

    Attributes:
        parts: the user's own, see `extended`.

    Example:
        >>> WORKLOAD.length({"dataset": "digits", "epochs": 3}, data=False)
        (3, 3)
        >>> WORKLOAD.applies("beta", {"loss": "contrastive"})
        False
    """

    parts: OwnParts = field(default_factory=OwnParts)

    not_searched = frozenset({*_DATA, *_JUDGING})
    not_of_arms = not_searched - {"epochs"}
    not_of_conditions = frozenset({"loss"})
    open = False
    recorded_once = frozenset({"tau_plus"})
    search_metric = "val/knn_top1"
    confirm_metrics = ("test/knn_top1", "test/linear_top1", "test/linear_top5")
    test_curves = (
        *confirm_metrics,
        "test/knn_top5",
        "test/knn_worst_class",
        "test/linear_worst_class",
    )
    keepable = ("features", "encoder")
    first_epoch = 0
    length_settings = ("num_positives", "batch_size")
    data_settings = (*_DATA, "loss", "false_negatives")
    weight_settings = (*_KIND, "batch_size", "num_positives")
    environment = ("CONTRASTIVE_CACHE", "CONTRASTIVE_DATA")
    packages = ("contrastive",)

    @cached_property
    def hints(self) -> Mapping[str, Any]:
        """Type of each setting, with its bounds."""
        found = get_type_hints(TrainConfig, include_extras=True)
        return {name: found[name] for name in SETTINGS} | self.parts.hints

    @cached_property
    def defaults(self) -> Mapping[str, Any]:
        """Default of each setting that has one."""
        config = TrainConfig()
        return {name: getattr(config, name) for name in SETTINGS} | self.parts.defaults

    @cached_property
    def metrics(self) -> Mapping[str, Mapping[str, str]]:
        """Every metric that a training may record: which way is better, and its unit."""
        return METRICS | dict(self.parts.metrics)

    def extended(
        self, trainings: Sequence[Mapping[str, Any]], load: Callable[[str], Any]
    ) -> Contrastive:
        """The workload with the user's own parts that any of these settings name.

        Args:
            trainings: settings of any training, as they were written.
            load: imports `module:function`; in this process it is imported so from now on.

        Raises:
            ValueError: a part cannot be imported, or has another form than it should.
        """
        return Contrastive(own_parts(trainings, load))

    def try_parts(self) -> None:
        """Run each of the user's own parts once on a tiny batch; a dataset shows in `prepare`.

        A loss with an option that has no default and is not set in the study (but searched) is not
        tried.

        Raises:
            ValueError: says which part fails, how and in which line.
        """
        for loss, options in self.parts.options.items():
            training = self.parts.examples[loss]
            if all(n in training for n, option in options.items() if option.required):
                try_loss(loss, self.parts.options_of(loss, training), training)
        for encoder in self.parts.encoders:
            try_encoder(encoder, self._image_shape(self.parts.examples[encoder]))
        for evaluation in self.parts.evaluations:
            try_evaluation(evaluation)

    def complete(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Every setting by name, defaults filled in, ready for JSON.

        Options of an own loss are there where the training has that loss; settings that are younger
        than studies in store, where they have another value than their default.

        Raises:
            SettingsError: they contradict each other, or one is impossible.
        """
        fault = conflict(settings)
        if fault:
            raise SettingsError(
                fault,
                ("epochs", "budget"),
                "`epochs`, or a `budget` of epochs or views; with a budget of seconds both",
                "trial: {epochs: null} beside the budget takes back the epochs of the file",
            )
        config = self._config(settings)
        return plain(config) | self.parts.options_of(config.loss, settings)

    def applies(self, name: str, settings: Mapping[str, Any]) -> bool:
        """Whether the setting counts: an option of another loss does not."""
        loss = settings.get("loss", TrainConfig.loss)
        if not isinstance(loss, str) or loss not in {*LOSS_OPTIONS, *self.parts.options}:
            return True  # an unknown loss is refused elsewhere
        optional = set(self.parts.hints).union(*LOSS_OPTIONS.values())
        return name not in optional or name in accepted(loss)

    def unused(self, name: str, settings: Mapping[str, Any]) -> tuple[str, str]:
        """Why a setting does not count, and which ones do."""
        loss = settings.get("loss", TrainConfig.loss)
        takes = sorted(set(accepted(loss)) & set(self.hints))
        return f"the loss {loss} takes no {name}", ", ".join(takes)

    def explain(self, name: str, value: Any) -> tuple[str, str] | None:
        """What is allowed and what to try for a wrong value, where the type alone is no help."""
        if name != "budget":
            return None
        units = list(value) if isinstance(value, Mapping) else []
        close = nearest(str(units[0]), BUDGETS) if units else None
        return ALLOWED, f"{{{close or 'views'}: 600}}"

    def timed(self, settings: Mapping[str, Any]) -> bool:
        """Whether the training has a budget of seconds."""
        budget = settings.get("budget")
        return isinstance(budget, Mapping) and budget.get("seconds") is not None

    def measured_every(self, settings: Mapping[str, Any]) -> int:
        """Epochs from one evaluation on the validation split to the next."""
        return settings.get("eval_every", TrainConfig.eval_every)

    def unmeasured(self, settings: Mapping[str, Any]) -> Mapping[str, str]:
        """The metrics that a training does not record, with the setting that is the reason."""
        if settings.get("validation", TrainConfig.validation):
            return {}
        return {name: "validation" for name in self.metrics if name.startswith("val/")}

    def prepare(self, settings: Mapping[str, Any]) -> str:
        """The folder of the prepared images; in the driver, which may download and decode them.

        Raises:
            DataError: they cannot be had.
        """
        return _prepared(self._config(settings))

    def length(self, settings: Mapping[str, Any], *, data: bool = True) -> tuple[int, int] | None:
        """The fewest and the most epochs that a training can have.

        Args:
            settings: of the training.
            data: look at the dataset: whether a batch fits, and how long a budget of views lasts.

        Returns:
            None where only the dataset could tell and `data` is False.

        Raises:
            SettingsError: the settings are impossible.
            DataError: the dataset cannot be read, or is smaller than a batch.
        """
        config = self._config(settings)
        if data:
            with _about("batch_size"):
                epochs = extent(config, train_images(_prepared(config))).epochs
        elif config.budget is not None and config.budget.views is not None:
            return None
        else:
            epochs = config.epochs
        return (1 if self.timed(settings) else epochs), epochs

    def weight(self, settings: Mapping[str, Any]) -> tuple[tuple[Any, ...], float]:
        """The kind of a training, and the views in a batch: of one kind, most views need most."""
        config = self._config(settings)
        return tuple(getattr(config, name) for name in _KIND), float(views_per_step(config))

    def seconds(self, settings: Mapping[str, Any]) -> float:
        """Device-seconds of one training, from a few batches timed now.

        Raises:
            ValueError: they cannot be timed.
        """
        from contrastive.training.loop import Diverged, dataset_of

        config = self._config(settings)
        data = dataset_of(config)
        length = extent(config, len(data.train))
        few = min(length.steps, TIMED_BATCHES)
        try:
            # Epoch 1 warms up, epoch 2 only trains, epoch 3 trains and evaluates.
            timed = replace(
                config, train_limit=few * config.batch_size, epochs=3, budget=None, eval_every=4
            )
            options = self.parts.options_of(config.loss, settings)
            per_batch, per_image = _measured(timed, tuple(options.items()))
        except Diverged as error:
            raise ValueError(str(error)) from error
        training = length.all_steps * per_batch
        if config.budget is not None and config.budget.seconds is not None:
            training = min(training, config.budget.seconds)
        epochs = training / (length.steps * per_batch)
        return training + epochs // config.eval_every * _evaluated(data) * per_image

    def _config(self, settings: Mapping[str, Any]) -> TrainConfig:
        return _config({n: v for n, v in settings.items() if n not in self.parts.hints})

    def _image_shape(self, settings: Mapping[str, Any]) -> tuple[int, int, int]:
        """(C, H, W) of the images of a training."""
        config = TrainConfig(**{n: settings[n] for n in _DATA if n in settings})
        known = DATASETS[config.dataset].shape if config.dataset in DATASETS else None
        if known is None:
            return image_shape(_prepared(config))
        size = config.image_size
        return (known[0], size, size) if size else known

    def check_environment(self, trainings: Iterable[Mapping[str, Any]]) -> None:
        """Refuse trainings that need torchvision where it does not match torch.

        Raises:
            ValueError: says so in one line; importing such a pair fails with a long traceback.
        """
        if not any(str(t.get("encoder", "")).startswith("resnet") for t in trainings):
            return
        # In a process of its own: the driver does without PyTorch's 400 MB.
        tried = subprocess.run(
            [sys.executable, "-c", "import torchvision"],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        if tried.returncode:
            raise ValueError(
                f"torch and torchvision do not match ({_message(tried.stderr)}); "
                "try: pip install --force-reinstall torch torchvision -c constraints.txt"
            )

    def train(self, run: Any, settings: Mapping[str, Any]) -> None:
        """Train, report each epoch, and continue from what an earlier attempt saved.

        Args:
            run: the study's view of one training: `seed`, `read_test`, `test_epochs`, `to_keep`,
                `folder`, `device`, `threads`, `prepared`, `report`, `keep`, `stopping`, `diverged`.
            settings: what `complete` returned.
        """
        import torch

        from contrastive.training.kept import keep
        from contrastive.training.loop import Diverged, train

        torch.set_num_threads(run.threads)
        if not torch.cuda.is_available():
            # Some CPU kernels are exact only when asked to be; on GPUs it would cost speed, and
            # results are not promised to the last bit there.
            torch.use_deterministic_algorithms(True, warn_only=True)
        elif torch.cuda.is_initialized():
            torch.cuda.reset_peak_memory_stats()  # of the training before in this process
        settings = dict(settings)
        options = {n: v for n, v in settings.items() if n not in SETTINGS}  # of an own loss
        config = TrainConfig(**{n: v for n, v in settings.items() if n in SETTINGS})
        state, records = _load_state(run, settings)
        for record in records:
            _report(run, record)
        saved = time.monotonic()
        try:
            for epoch in train(
                config,
                run.seed,
                dataset=_dataset(config, run.prepared),
                state=state,
                read_test=run.read_test,
                test_epochs=run.test_epochs,
                device=run.device,
                options=options,
            ):
                records.append(_record(epoch))
                _report(run, records[-1], last=epoch.last, earlier=epoch.earlier)
                if epoch.trained is not None:
                    keep(run, epoch.trained, settings)
                if epoch.last:
                    continue
                stopping = run.stopping
                if stopping or time.monotonic() - saved > CHECKPOINT_EVERY_S:
                    _save_state(run, settings, epoch.state(), records)
                    saved = time.monotonic()
                if stopping:  # with the whole study, to be resumed
                    return
        except Diverged as error:
            run.diverged(str(error))
        finally:
            if torch.cuda.is_initialized():
                torch.cuda.empty_cache()  # this process trains again, others may share the card


WORKLOAD = Contrastive()


def _config(settings: Mapping[str, Any]) -> TrainConfig:
    try:
        return TrainConfig(**settings)
    except ValidationError as error:
        details = error.errors(include_url=False)[0]
        message = str(details.get("ctx", {}).get("error", details["msg"]))
        written = [str(part) for part in details["loc"][:1]]
        named = [name for name in settings if message.startswith(name)]
        raise SettingsError(message, tuple(written or named)) from None


def _prepared(config: TrainConfig) -> str:
    with _about("dataset_path", "dataset"):
        check_batch_fits(config)
        own = None if config.dataset in DATASETS else part("datasets", config.dataset, DATASETS)
        entry = _prepared_once(own, **selection(config))
        if needed_by := needing_labels(config):
            refuse_unlabelled(train_labels(entry), needed_by)
    return entry


@cache  # a study has many configurations and few datasets
def _prepared_once(own: Callable[[], Any] | None, **chosen: Any) -> str:
    """The prepared folder; `own` tells functions apart that have had the same name."""
    return str(prepare(**chosen))


def _dataset(config: TrainConfig, prepared: str) -> Dataset | None:
    """What the driver prepared; None on a node without it, where the images are looked for.

    Raises:
        DataError: a function of the user's returns other images on this node.
    """
    if not prepared:
        return None
    if Path(prepared).is_dir():
        return load_prepared(prepared)
    if config.dataset not in DATASETS and Path(_prepared(config)).name != Path(prepared).name:
        raise DataError(
            f"dataset {config.dataset}: on this node its function returns other images than where "
            "the study was started\n  try: the same files and the same seed on every node"
        )
    return None


@contextlib.contextmanager
def _about(*names: str) -> Any:
    """Say of which settings an error of the data is, unless it says so already."""
    try:
        yield
    except (DataError, PartError) as error:
        error.settings = error.settings or names
        raise


@cache
def _measured(config: TrainConfig, options: tuple[tuple[str, Any], ...]) -> tuple[float, float]:
    """Seconds of a training batch, and of an image in an evaluation, by three epochs."""
    from contrastive.training.loop import dataset_of, train

    data = dataset_of(config)
    records = train(config, 0, read_test=False, options=dict(options))
    seconds = [record.metrics["seconds"] for record in records]
    training = seconds[2] - seconds[1]
    evaluation = max(0.0, seconds[3] - seconds[2] - training)
    return training / batches(config, len(data.train)), evaluation / max(1, _evaluated(data))


def _evaluated(data: Dataset) -> int:
    """Images that an evaluation in training encodes."""
    return 0 if data.val is None else len(data.train) + len(data.val)


def _message(traceback: str) -> str:
    """The text of the error that a traceback ends with."""
    last = traceback.strip().splitlines()[-1:] or ["no reason given"]
    return last[0].partition(": ")[2] or last[0]


def _record(epoch: EpochRecord) -> dict[str, Any]:
    return {"epoch": epoch.epoch, "metrics": epoch.metrics, "counts": _plain(epoch.counts)}


def _plain(counts: Mapping[str, Count]) -> dict[str, tuple[int, int]]:
    return {name: (c.correct, c.total) for name, c in counts.items()}


def _report(
    run: Any,
    record: Mapping[str, Any],
    *,
    last: bool = False,
    earlier: Mapping[int, Mapping[str, Count]] | None = None,
) -> None:
    curves = [
        (epoch, {name: c.accuracy for name, c in counts.items()}, _plain(counts))
        for epoch, counts in (earlier or {}).items()
    ]
    run.report(
        record["epoch"], record["metrics"], counts=record["counts"], last=last, earlier=curves
    )


def _save_state(
    run: Any, settings: dict[str, Any], state: dict[str, Any], records: list[dict[str, Any]]
) -> None:
    """Replace the saved state, whole or not at all; a full disk costs epochs, never the run."""
    import torch

    content = {"seed": run.seed, "settings": settings, "state": state, "records": records}
    scratch = None
    try:
        file = run.folder / STATE_FILE
        scratch = file.with_suffix(".part")
        torch.save(content, scratch)
        os.replace(scratch, file)  # a reader finds the old or the new one, never half of one
    except (OSError, RuntimeError):  # torch says "file write failed" where the disk is full
        if scratch is not None:
            with contextlib.suppress(OSError):
                scratch.unlink(missing_ok=True)


def _load_state(
    run: Any, settings: dict[str, Any]
) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    """The saved state and the records up to it; of another or a damaged training, none."""
    import torch

    try:
        file = run.folder / STATE_FILE
        content = torch.load(file, weights_only=True, map_location="cpu")
        if (content["seed"], content["settings"]) != (run.seed, settings):
            return None, []
        records = [
            {name: record[name] for name in ("epoch", "metrics", "counts")}
            for record in content["records"]
        ]
        return content["state"], records
    except Exception:  # an unreadable state costs its epochs, never the run
        return None, []
