"""Tracking: MLflow runs, and progress in the terminal."""

import lazy_loader

# Loaded when first asked for: a command that needs one name shall not wait for all libraries.
__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "mlflow_address": [
            "browse_command",
            "browse_url",
            "experiment_page",
            "tracking_uri",
            "ui_command",
            "ui_environment",
        ],
        "mlflow_tracker": ["Tracker"],
        "progress": ["Display", "duration"],
    },
)
