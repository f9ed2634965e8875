"""The design of a study: the model of its file, its arms, search spaces and constraints."""

from study.design.arms import Arm, arms_of, timed, twin_seed
from study.design.constraints import ALLOWED, names_in, satisfied
from study.design.early_windows import ON_TEST, epochs_on_test
from study.design.search_space import MOST_POINTS, SearchSpace, ordered
from study.design.study import (
    MOST_RUNS,
    RECORDED,
    SAMPLERS,
    SPLIT,
    Budget,
    Confirm,
    EarlyStopping,
    Figures,
    Metric,
    Parameter,
    Rechecks,
    Resources,
    Search,
    Study,
)

__all__ = [
    "ALLOWED",
    "MOST_POINTS",
    "MOST_RUNS",
    "ON_TEST",
    "RECORDED",
    "SAMPLERS",
    "SPLIT",
    "Arm",
    "Budget",
    "Confirm",
    "EarlyStopping",
    "Figures",
    "Metric",
    "Parameter",
    "Rechecks",
    "Resources",
    "Search",
    "SearchSpace",
    "Study",
    "arms_of",
    "epochs_on_test",
    "names_in",
    "ordered",
    "satisfied",
    "timed",
    "twin_seed",
]
