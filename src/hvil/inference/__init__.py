"""Inference: the ELBO's terms, the gradient estimators, and the exact likelihood over all call structures."""
