"""From a study file to a checked design: reading, overrides, and all checks."""

import lazy_loader

# Loaded when first asked for: a command that needs one name shall not wait for all libraries.
__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submod_attrs={"find_workload": ["resolved"], "load": ["load_study"]}
)
