"""Reporting: tables, the report, its verification, provenance, and the summary."""

import lazy_loader

# Loaded when first asked for: a command that needs one name shall not wait for all libraries.
__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "overview": ["overview_of", "studies_in"],
        "provenance": ["hardware", "provenance_of", "versions"],
        "looks": ["Seen", "ended_units", "note_look", "seen_elsewhere"],
        "study_report": ["report_on"],
        "summary": ["close_study"],
        "tables": ["write_tables"],
        "verify": ["verify_study"],
    },
)
