"""The networks of procedures, posterior and baselines, and the code that runs them one step at a time.

They know nothing of objectives: those are in `hvil.learners.objective` and `hvil.learners.exact`.
"""
