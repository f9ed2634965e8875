"""The phases of a study: the search of each arm, and the confirmation of the winners."""

import lazy_loader

# Loaded when first asked for: a command that needs one name shall not wait for all libraries.
__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "arm": ["REJECTED", "distribution", "optuna_name"],
        "confirmation": ["ConfirmSource", "confirmation_jobs", "same_training"],
        "objectives": ["front", "judged"],
        "optuna_storage": ["designs_of", "open_read_only"],
        "rebuild": ["mend_history"],
        "replicates": ["ReplicatesSource"],
        "search": ["SearchSource"],
    },
)
