"""How far a finite batch is from the loss that it estimates, beside the published bounds.

The papers bound that distance by C·N^{-1/2}. Here are their bounds, as printed and with the slips
of their proofs mended, beside the true error on data where every expectation is known: clusters
of von Mises-Fisher distributions on the sphere S², for which E exp(xᵀz) has a closed form. As in
the papers, t = 1. docs/losses.md discusses the results.

    python -m contrastive.bounds --figure bounds.png      # a minute on one core
"""
