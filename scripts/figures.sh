#!/usr/bin/env bash
# Runs what is in results/ and was made by `hvil reproduce`, what most depends on first. Behind each command stand the
# hours of one core that it takes. Interrupt it and start it again: no cell that has a record is run again.
#
#     scripts/figures.sh
#
# Preset paper of the acausal figure uses all of MNIST: set HVIL_MNIST to a directory with the four files. Its other
# presets use the packaged digits, whatever is set.
set -euo pipefail
cd "$(dirname "$0")/.."
hvil() { .venv/bin/python -m hvil "$@"; }
bubblesort() { hvil reproduce bubblesort --preset ours --sizes "$1" --models "${@:2}"; }
papers=("program A" "program B" "program C" "program D" "program E" "program F")

for size in 30 70 10 50; do
  bubblesort "$size" HVIL "ceiling: annotated traces" LSTM "LSTM, best settings found" # 1.5 to 3 h each
done
bubblesort 30 "HVIL, 1 procedure" "HVIL, the paper's settings" feed-forward Stack-RNN # 1 h
hvil reproduce karel-data --preset ours --sizes 10 20                                 # 6.5 h
hvil reproduce karel-data --preset ours --sizes 40 80                                 # 3 h
hvil reproduce bubblesort --preset paper                                              # 2 h
bubblesort 20 HVIL "LSTM, best settings found"                                        # 1 h
hvil reproduce ablations-bubblesort --preset ours                                     # 3.3 h
.venv/bin/python examples/level_by_level.py                                           # 0.5 h
hvil reproduce acausal --preset paper                                                 # 1.6 h
hvil reproduce karel-length --preset ours --panels "${papers[@]}"                     # 1.3 h
hvil reproduce ablations-karel --preset ours                                          # 1.5 h
hvil reproduce karel-data --preset paper                                              # 1.7 h
hvil reproduce karel-length --preset paper                                            # 1.2 h
hvil reproduce karel-length --preset ours                                             # 1 h more
env -u HVIL_MNIST .venv/bin/python -m hvil reproduce acausal --preset ours            # 4 h
