"""Execution: jobs under Ray Tune, resources, checkpoints."""

import lazy_loader

# Loaded when first asked for: a command that needs one name shall not wait for all libraries.
__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "ray_cluster": ["start_ray", "stop_ray"],
        "ray_tune": ["execute"],
        "resources": ["Share", "share", "slots_here"],
    },
)
