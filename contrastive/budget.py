"""The former place of `Budget` and what belongs to it, now in `contrastive.config`."""

from contrastive.config import ALLOWED, BUDGETS, Budget, conflict

__all__ = ["ALLOWED", "BUDGETS", "Budget", "conflict"]
