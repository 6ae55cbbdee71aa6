"""What an experiment shows: estimates from its records, tables, pictures, and verdicts on its claims.

It runs nothing: the records come from `engine`.
"""
