"""What came out of an experiment: estimates, tables, pictures, verdicts on the claims."""
