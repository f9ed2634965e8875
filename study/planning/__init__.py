"""Planning: what a study would do, show and cost, before anything runs."""

import lazy_loader

# Loaded when first asked for: a command that needs one name shall not wait for all libraries.
__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "dry_run": ["plan_lines", "start_lines"],
        "identical": ["identical_lines"],
        "power": ["Pilot", "gate", "pilot_of"],
    },
)
