"""Contrastive representation learning: data, encoders, losses, training and evaluation."""
