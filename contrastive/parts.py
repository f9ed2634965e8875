"""The user's own parts of a study's trainings: their settings, their metrics, and a try of each."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from contrastive.catalogue import (
    ENCODER_NAMES,
    LOSS_OPTIONS,
    Load,
    Option,
    PartError,
    keywords,
    known,
    metric_name,
    part,
)
from contrastive.config import SETTINGS, TrainConfig
from contrastive.data import DATASETS
from contrastive.messages import first_line, with_place

# Setting, group and built-in names of each kind of part that is named alone.
_SINGLE = (
    ("dataset", "datasets", tuple(DATASETS)),
    ("encoder", "encoders", ENCODER_NAMES),
    ("loss", "losses", tuple(LOSS_OPTIONS)),
)


class SettingsError(ValueError):
    """Settings that are impossible or contradict each other.

    Attributes:
        settings: names of those that it is about, the likeliest culprit first.
        allowed: what would be accepted, or "".
        remedy: what to try, or "".
    """

    def __init__(
        self, message: str, settings: tuple[str, ...] = (), allowed: str = "", remedy: str = ""
    ) -> None:
        super().__init__(message)
        self.settings, self.allowed, self.remedy = settings, allowed, remedy


@dataclass(frozen=True)
class OwnParts:
    """What the trainings of a study name beside the built-in parts.

    Attributes:
        options: of each own loss, those that are no settings otherwise.
        encoders, evaluations: by name.
        metrics: that the evaluations record: which way is better, and the unit.
        examples: the first training that names a loss or an encoder.
    """

    options: Mapping[str, Mapping[str, Option]] = field(default_factory=dict)
    encoders: tuple[str, ...] = ()
    evaluations: tuple[str, ...] = ()
    metrics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    examples: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def hints(self) -> dict[str, Any]:
        """Type of each option, with its bounds."""
        return {n: o.hint for options in self.options.values() for n, o in options.items()}

    @property
    def defaults(self) -> dict[str, Any]:
        """Default of each option; where losses of the same option differ in it, none."""
        found: dict[str, list[Any]] = {}
        for options in self.options.values():
            for name, option in options.items():
                found.setdefault(name, []).append(option.default)
        return {
            name: values[0]
            for name, values in found.items()
            if values[0] is not inspect.Parameter.empty and all(v == values[0] for v in values)
        }

    def options_of(
        self, loss: str, given: Mapping[str, Any], *, text: bool = False
    ) -> dict[str, Any]:
        """Every option of a loss, checked: what is given, else the default.

        Args:
            loss: its name; a built-in one has none.
            given: settings, others among them.
            text: numbers may be given as text, as on a command line.

        Raises:
            SettingsError: one is out of its bounds, or is needed and not given.
        """
        values = {}
        for name, option in self.options.get(loss, {}).items():
            if name in given:
                values[name] = _checked(name, option.hint, given[name], text=text)
            elif option.required:
                raise SettingsError(
                    f"{name} is not set, and {loss} has no default for it",
                    (name, "loss"),
                    "a value of its type",
                    f"{name}: …",
                )
            else:
                values[name] = option.default
        return values


def own_parts(trainings: Sequence[Mapping[str, Any]], load: Load | None) -> OwnParts:
    """The own parts that any of these settings name, imported.

    Raises:
        ValueError: one cannot be imported or has another form than it should; `settings` says
            which setting names it.
    """
    found: dict[str, dict[str, Mapping[str, Any]]] = {setting: {} for setting, _, _ in _SINGLE}
    evaluations: dict[str, Callable[..., Any]] = {}
    options = {}
    for training in trainings:
        for setting, group, built_in in _SINGLE:
            name = training.get(setting)
            if name in built_in or not known(group, name, ()) or name in found[setting]:
                continue
            with _about(setting):
                function = part(group, name, built_in, load)
                if setting == "loss":
                    options[name] = _own_options(name, function)
            found[setting][name] = training
        named = training.get("evaluations")
        for name in named if isinstance(named, list | tuple) else ():
            if known("evaluations", name, ()) and name not in evaluations:
                with _about("evaluations"):
                    evaluations[name] = part("evaluations", name, load=load)
    with _about("loss"):
        _check_alike(options)
    with _about("evaluations"):
        metrics = _metrics(evaluations)
    return OwnParts(
        options,
        tuple(found["encoder"]),
        tuple(evaluations),
        metrics,
        found["loss"] | found["encoder"],
    )


def _own_options(loss: str, function: Callable[..., Any]) -> dict[str, Option]:
    """The options of a loss that are not settings of every training."""
    own = {}
    for name, option in keywords(function, loss).items():
        if name == "labels":
            continue
        if name in SETTINGS:
            _check_shared(loss, name, option)
            continue
        try:
            TypeAdapter(option.hint)
        except (PydanticSchemaGenerationError, PydanticUserError) as error:
            raise PartError(
                f"{loss}: the type of its option {name} cannot be checked: {first_line(error)}; "
                "allowed: numbers, text, true and false, and choices (Literal)"
            ) from error
        own[name] = option
    return own


def _check_shared(loss: str, name: str, option: Option) -> None:
    """Refuse an option that has the name of a setting but means something else."""
    hint = get_type_hints(TrainConfig)[name]
    bare = get_args(option.hint)[0] if hasattr(option.hint, "__metadata__") else option.hint
    if bare is not Any and bare != hint and bare not in get_args(hint):
        raise PartError(
            f"{loss}: its option {name} is {_shown(bare)}, the setting {name} of every training is "
            f"{_shown(hint)}; allowed: the same type, which shares the setting, or another name"
        )
    default = getattr(TrainConfig(), name)
    if not option.required and option.default != default:
        raise PartError(
            f"{loss}: its option {name} has the default {option.default!r}, the setting {name} of "
            f"every training {default!r}; allowed: no default, which shares the setting, or "
            "another name"
        )


def _shown(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")


def _check_alike(options: Mapping[str, Mapping[str, Option]]) -> None:
    """Refuse options of one name and several types: a setting has one."""
    seen: dict[str, tuple[str, Any]] = {}
    for loss, own in options.items():
        for name, option in own.items():
            other, hint = seen.setdefault(name, (loss, option.hint))
            if repr(option.hint) != repr(hint):  # pydantic's Field(gt=0) does not equal another
                raise PartError(
                    f"{loss}: its option {name} has another type or other bounds than that of "
                    f"{other}; allowed: the same for both, or another name"
                )


def _metrics(evaluations: Mapping[str, Callable[..., Any]]) -> dict[str, dict[str, str]]:
    """What the evaluations record, by the attributes `better` and `unit` of their functions."""
    found: dict[str, dict[str, str]] = {}
    taken = {"knn_top1", "knn_top5", "knn_worst_class", "untrained_knn_top1"}
    taken |= {"linear_top1", "linear_top5", "linear_worst_class", "alignment", "uniformity"}
    for name, function in evaluations.items():
        short, better = metric_name(name), getattr(function, "better", "higher")
        if short in taken:
            raise PartError(
                f"{name} records {short}, which another evaluation records already; allowed: "
                "functions of different names"
            )
        if better not in ("higher", "lower"):
            raise PartError(f"{name}: its attribute better is {better!r}; allowed: higher, lower")
        taken.add(short)
        facts = {"better": better, "unit": str(getattr(function, "unit", ""))}
        found |= {f"val/{short}": facts, f"test/{short}": facts}
    return found


def _checked(name: str, hint: Any, value: Any, *, text: bool) -> Any:
    strict = isinstance(value, str | bool) and not text  # no text for a number, no `true` for 1
    try:
        adapter = TypeAdapter(hint, config=ConfigDict(allow_inf_nan=False))
        return adapter.validate_python(value, strict=strict)
    except ValidationError as error:
        messages = [_allowed(e["msg"]) for e in error.errors(include_url=False)]
        allowed = " or ".join(dict.fromkeys(messages))
        raise SettingsError(f"{name} is {value!r}", (name,), allowed) from None


def _allowed(message: str) -> str:
    """What pydantic says that a value should be, without its beginning."""
    return message.removeprefix("Input should be ")


@contextlib.contextmanager
def _about(*settings: str) -> Iterator[None]:
    """Say which settings an error is about, unless it says so already."""
    try:
        yield
    except (PartError, SettingsError) as error:
        error.settings = error.settings or settings
        raise


def try_loss(name: str, options: Mapping[str, Any], training: Mapping[str, Any]) -> None:
    """Run an own loss and its gradient on two views of four images in eight dimensions.

    Raises:
        PartError: it fails, or returns something else than a finite number with a gradient.
    """
    import torch

    function = part("losses", name)
    shared = vars(TrainConfig()) | {n: v for n, v in training.items() if n in SETTINGS}
    if shared["tau_plus"] == "auto":
        shared["tau_plus"] = TrainConfig.tau_plus
    values = shared | options | {"labels": torch.arange(4) % 2}
    given = {n: values[n] for n in keywords(function, name) if n in values}
    with _trying(name, function, "2 views of 4 images, (2, 4, 8)", "loss"):
        views = torch.randn(2, 4, 8, requires_grad=True)
        loss = function(views, **given)
        _require(
            isinstance(loss, torch.Tensor) and loss.ndim == 0 and loss.is_floating_point(),
            f"it returned {_described(loss)}; allowed: a floating-point tensor of shape ()",
        )
        _require(loss.requires_grad, "its value has no gradient; allowed: one for views")
        loss.backward()
        _require(views.grad is not None, "its value has no gradient for views")
        _require(
            bool(torch.isfinite(loss)) and bool(torch.isfinite(views.grad).all()),
            f"its value {loss.item():g} or its gradient is not finite",
        )


def try_encoder(name: str, shape: tuple[int, int, int]) -> None:
    """Run an own encoder, forward and backward, on two images (C, H, W) of noise.

    Raises:
        PartError: it fails, or returns something else than (2, width).
    """
    import torch

    from contrastive.encoders import SimCLR, encoder_named

    what = f"2 images {shape}, channels last in memory"
    with _trying(name, encoder_named(name), what, "encoder"):
        images = torch.rand(2, *shape).contiguous(memory_format=torch.channels_last)
        model = SimCLR(name, shape[0], 8).to(memory_format=torch.channels_last)
        width, found = model.projection_head[0].in_features, model.backbone(images)
        _require(
            isinstance(found, torch.Tensor) and tuple(found.shape) == (2, width),
            f"its module returned {_described(found)}; allowed: (2, {width}), the width it names",
        )
        model(images).sum().backward()


def try_evaluation(name: str) -> None:
    """Run an own evaluation on eight representations of two classes.

    Raises:
        PartError: it fails, or returns something else than a number.
    """
    import torch

    function = part("evaluations", name)
    with _trying(name, function, "8 representations (8, 16)", "evaluations"), torch.no_grad():
        found = function(torch.randn(8, 16), torch.arange(8) % 2)
        _require(
            isinstance(found, int | float) or getattr(found, "shape", None) == (),
            f"it returned {_described(found)}; allowed: one number",
        )
        float(found)


class _Unfit(Exception):
    """A part ran, and what it returned is of no use."""


def _require(fulfilled: bool, message: str) -> None:
    if not fulfilled:
        raise _Unfit(message)


@contextlib.contextmanager
def _trying(name: str, function: Any, what: str, setting: str) -> Iterator[None]:
    """Turn whatever a part raises into one message; leave the global generator as it was."""
    import torch

    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            yield
    except PartError as error:
        error.settings = (setting,)
        raise
    except _Unfit as error:
        fault = PartError(f"{name}, tried on {what}: {error}")
        fault.settings = (setting,)
        raise fault from None
    except Exception as error:
        code = getattr(inspect.unwrap(function), "__code__", None)
        text = with_place(error, getattr(code, "co_filename", None))
        fault = PartError(f"{name} fails on {what}: {text}")
        fault.settings = (setting,)
        raise fault from error


def _described(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return type(value).__name__ if shape is None else f"{type(value).__name__} {tuple(shape)}"
