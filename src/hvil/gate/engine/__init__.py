"""Runs jobs here, in other processes, or on a Ray cluster: what a job does is the caller's business.

A job is a mapping that goes to a worker as JSON; the worker writes its record to a file. Dead workers are replaced.
"""
