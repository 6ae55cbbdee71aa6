# Two commands do everything: `make demo` and `make test`. Both set up .venv first.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/installed

.PHONY: setup demo test lint docs format bench clean
setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,docs,minari,ray,tensorboard]'
	@touch $(STAMP)

demo: setup
	@rm -rf demo && mkdir demo
	@echo "Learning Karel program F from 10 demonstrations: once as procedures on a call stack, then as LSTMs."
	$(BIN)/hvil fit karel:F --demos 10 --out demo/hvil
	$(BIN)/hvil fit karel:F --demos 10 --model lstm --out demo/lstm
	@echo "The same LSTM, but it also sees its last action, as the procedures do: the best setting found for it."
	$(BIN)/hvil fit karel:F --demos 10 --model lstm --last-action --out demo/lstm-best
	$(BIN)/hvil explain demo/hvil
	$(BIN)/hvil report demo/hvil

test: setup
	$(BIN)/python -m pytest -n 2

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: setup
	$(BIN)/mkdocs build --strict --quiet

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup
	$(BIN)/hvil bench

clean:
	rm -rf .venv build dist
