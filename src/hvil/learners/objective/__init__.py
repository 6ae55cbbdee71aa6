"""The variational objective: its terms, the gradient estimators, and the compiled path through both."""
