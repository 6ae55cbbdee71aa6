"""`hvil bench`: how fast an update is and how costs grow, measured in one run on one thread.

What counts are ratios of times that are measured in turns, because they hold on other machines: `floor_ratio` is HVIL's
update over a bare padded biLSTM, `naive_ratio` the naive twin's update over HVIL's, `ratio_31_to_6` HVIL's update with
31 procedures over that with 6, `update_ratio` the exact learner's update over HVIL's, `two_process_ratio` the updates
per second of two processes over those of one.
"""
