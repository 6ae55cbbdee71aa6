"""The networks of policy, posterior and baselines, and the code that runs a policy.

They know nothing of objectives: those are in `hvil.learners.objective` and `hvil.learners.exact`.
"""
