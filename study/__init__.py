"""Fair searches, paired confirmations and verdicts for contrastive-learning methods."""
