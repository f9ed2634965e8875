"""What can be said from the representations that runs kept, without training again.

scikit-learn is imported where it is used: most reports have no use for it.
"""

from __future__ import annotations

from analysis.representations.embedding import embedding
from analysis.representations.kept import Kept
from analysis.representations.robustness import robustness

__all__ = ["Kept", "embedding", "robustness"]
