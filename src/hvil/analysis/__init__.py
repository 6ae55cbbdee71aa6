"""What one does with a learner: measure it (`evaluation`), read it (`explain`), show it (`report`).

Nothing here trains, and nothing here knows run directories: that is `hvil.training`.
"""
