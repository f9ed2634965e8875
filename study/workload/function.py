"""A training function as a workload: its keyword parameters are the settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_type_hints

from pydantic import PydanticSchemaGenerationError, ValidationError

from study.errors import listing, nearest
from study.workload import settings as types
from study.workload.interface import Settings, SettingsError
from study.workload.run import Run

EPOCHS = "epochs"


class FunctionWorkload:
    """`def train(run, *, learning_rate: float = 0.1, epochs: int = 5)`, seen as a workload.

    Args:
        function: takes the run first; its other parameters are the settings.
        name: as the study names it, `module:function`.
        metrics: that it reports, as the study file declares them.

    Raises:
        ValueError: it does not take `run`, or a parameter cannot be a setting.
    """

    not_searched = frozenset({EPOCHS})
    not_of_arms: frozenset[str] = frozenset()
    not_of_conditions: frozenset[str] = frozenset()
    recorded_once: frozenset[str] = frozenset()
    search_metric = ""
    confirm_metrics: Sequence[str] = ()
    test_curves: Sequence[str] = ()
    keepable: Sequence[str] = ()
    first_epoch = 1
    length_settings: Sequence[str] = ()
    data_settings: Sequence[str] = ()
    environment: Sequence[str] = ()
    packages: Sequence[str] = ()

    def __init__(
        self,
        function: Callable[..., None],
        name: str,
        metrics: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self.function, self.name = function, name
        self.metrics = dict(metrics or {}) | {"seconds": COST_SECONDS}
        self.hints: dict[str, Any] = {}
        self.defaults: dict[str, Any] = {}
        self.open = False
        self._read(inspect.signature(function))

    def _read(self, signature: inspect.Signature) -> None:
        hints = _hints(self.function)
        parameters = list(signature.parameters.values())
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        if not parameters or parameters[0].name != "run" or parameters[0].kind not in positional:
            raise SettingsError(
                f"{self.name} does not take `run` as its first parameter",
                allowed="def train(run, *, learning_rate: float = 0.1, epochs: int = 5)",
            )
        for parameter in parameters[1:]:
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                self.open = True
            elif parameter.kind in (
                inspect.Parameter.VAR_POSITIONAL,
                inspect.Parameter.POSITIONAL_ONLY,
            ):
                raise SettingsError(
                    f"{self.name}: the parameter {parameter} cannot be a setting",
                    allowed="parameters that can be passed by name, after `run, *`",
                )
            else:
                self._add(parameter, hints)

    def _add(self, parameter: inspect.Parameter, hints: Mapping[str, Any]) -> None:
        has_default = parameter.default is not inspect.Parameter.empty
        if has_default:
            self.defaults[parameter.name] = parameter.default
        hint = hints.get(parameter.name, types.hint_of(parameter.default if has_default else None))
        if has_default and parameter.default is None and hint is not Any:
            hint = _or_none(hint)  # as in `width: int = None`
        try:
            types.adapter_of(hint)
        except PydanticSchemaGenerationError:
            raise SettingsError(
                f"{self.name}: the type of the parameter {parameter} cannot be checked",
                allowed="numbers, texts, true or false, Literal, lists, Annotated[..., Field(...)]",
            ) from None
        self.hints[parameter.name] = hint

    def extended(
        self, trainings: Sequence[Mapping[str, Any]], load: Callable[[str], Any]
    ) -> FunctionWorkload:
        """Itself: a function has no parts that settings name."""
        return self

    def try_parts(self) -> None:
        """Nothing: a function has no parts."""

    def complete(self, settings: Mapping[str, Any]) -> Settings:
        """Every setting by name, as JSON data; see `Workload.complete`."""
        missing = [n for n in self.hints if n not in self.defaults and n not in settings]
        if missing:
            raise SettingsError(
                f"{', '.join(missing)}: {self.name} has no default for it, and nothing sets it",
                *missing,
                remedy=f"trial: {{{missing[0]}: …}}, or a default in the function",
            )
        values: Settings = {}
        for name, value in (self.defaults | dict(settings)).items():
            if name not in self.hints:
                if not self.open:
                    close = nearest(name, self.hints)
                    raise SettingsError(
                        f"{name}: {self.name} takes no such setting",
                        name,
                        allowed=listing(self.hints) or "none: the function has no parameters",
                        remedy=f"`{close}`" if close else "",
                    )
                values[name] = value
                continue
            hint = self.hints[name]
            try:
                read = types.read(hint, value) if name in settings else value
            except ValidationError as error:
                rule = types.wrong(name, hint, value)
                raise SettingsError(
                    f"{name} is {value!r}", name, allowed=rule[0] if rule else str(error)
                ) from None
            values[name] = types.plain(hint, read)
        return values

    def applies(self, name: str, settings: Mapping[str, Any]) -> bool:
        """All settings of a function always count."""
        return True

    def unused(self, name: str, settings: Mapping[str, Any]) -> tuple[str, str]:
        """Never asked: all settings count."""
        return f"{self.name} takes no {name}", ", ".join(self.hints)

    @property
    def weight_settings(self) -> Sequence[str]:
        """Texts, truth values and whole numbers: sizes and kinds of model and batch."""
        return [n for n, hint in self.hints.items() if n != EPOCHS and hint is not float]

    def explain(self, name: str, value: Any) -> tuple[str, str] | None:
        """Nothing beyond the types."""
        return None

    def timed(self, settings: Mapping[str, Any]) -> bool:
        """False: only epochs end a training."""
        return False

    def measured_every(self, settings: Mapping[str, Any]) -> int:
        """1: a function may report any epoch."""
        return 1

    def unmeasured(self, settings: Mapping[str, Any]) -> Mapping[str, str]:
        """None that could be known before the function runs."""
        return {}

    def prepare(self, settings: Mapping[str, Any]) -> str:
        """Nothing: the function finds its data itself."""
        return ""

    def length(self, settings: Mapping[str, Any], *, data: bool = True) -> tuple[int, int] | None:
        """`epochs`, where the function has such a setting; else None."""
        epochs = settings.get(EPOCHS, self.defaults.get(EPOCHS))
        if isinstance(epochs, bool) or not isinstance(epochs, int) or epochs < 1:
            return None
        return epochs, epochs

    def weight(self, settings: Mapping[str, Any]) -> tuple[tuple[Any, ...], float]:
        """Every text or truth value makes a kind of its own, larger whole numbers more memory."""
        kind = tuple(
            sorted((n, str(v)) for n, v in settings.items() if isinstance(v, str | bool | list))
        )
        size = 1.0
        for name, value in settings.items():
            if name != EPOCHS and types.integral(self.hints.get(name)) and isinstance(value, int):
                size *= max(1, abs(value))
        return kind, size

    def seconds(self, settings: Mapping[str, Any]) -> float:
        """Unknown before one has been run."""
        raise ValueError("no training of this function has been timed yet")

    def check_environment(self, trainings: Sequence[Mapping[str, Any]]) -> None:
        """Nothing: the function's module has been imported."""

    def train(self, run: Run, settings: Settings) -> None:
        """Call the function with the settings as its types want them."""
        values = {
            name: types.read(self.hints[name], value) if name in self.hints else value
            for name, value in settings.items()
        }
        self.function(run, **values)


COST_SECONDS = {"better": "lower", "unit": "s", "kind": "cost"}


def _or_none(hint: Any) -> Any:
    try:
        return hint | None
    except TypeError:  # no type at all, which the check of it will say
        return hint


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise SettingsError(
            f"{getattr(function, '__name__', function)}: its annotations cannot be read ({error})",
            allowed="types that are importable where the function is defined",
        ) from None
