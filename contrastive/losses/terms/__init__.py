"""Terms that the losses share: anchors, similarities, sums in log space, checks of arguments."""
