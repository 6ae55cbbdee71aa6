# Two commands do everything: `make demo` and `make test`. Both set up .venv first.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/installed

.PHONY: setup demo test lint docs format bench dist smoke clean
setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group dev --group docs --editable '.[hub,minari,ray,tensorboard]'
	@touch $(STAMP)

demo: setup
	@rm -rf demo
	@$(BIN)/hvil demo --out demo

test: setup
	$(BIN)/python -m pytest -n 2

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: setup
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet -d build/doctrees docs build/site
	$(BIN)/python scripts/check_links.py build/site

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup
	$(BIN)/hvil bench

dist: setup
	@rm -rf dist
	$(BIN)/python -m hatchling build

smoke: dist
	for file in dist/*; do $(BIN)/python scripts/smoke.py $$file --constraint constraints.txt || exit 1; done

clean:
	rm -rf .venv build dist
