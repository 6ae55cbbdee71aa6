"""The variational objective. To read: `elbo` (its terms), then `estimators` (its gradient).

`compiled` computes the same loss and gradient faster, where it can.
"""
