"""Storage: a study's folder, and the copy of it in an object store."""

import lazy_loader

# Loaded when first asked for: a command that needs one name shall not wait for all libraries.
__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "folder": ["Folder", "state_of"],
        "object_store": ["is_address", "shown"],
        "remote_study": ["RemoteStudy", "fetch_others", "fetch_report"],
    },
)
