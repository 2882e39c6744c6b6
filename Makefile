# Every target builds the environment first when it is missing or stale.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e
FIRST_LOOK := .venv/.first-look
READY := .venv/.ready

.PHONY: setup demo test slow bench docs format clean

setup: $(READY)

# Enough to train and to make videos; the libraries of the tests are several times as large.
$(FIRST_LOOK): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(INSTALL) '.[mujoco,video]'
	touch $@

$(READY): $(FIRST_LOOK)
	$(INSTALL) '.[mujoco,atari,video,ray,onnx,wandb,mlflow,tune,hub,worlds,gymnax,docs,dev]'
	touch $@

demo: $(FIRST_LOOK)
	$(BIN)/python examples/demo.py

test: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --dist worksteal -m 'not slow' -rs

slow: $(READY)
	$(BIN)/pytest -m slow -rs
	$(BIN)/python -m benchmarks.reliability

bench: $(READY)
	$(BIN)/python -m benchmarks.throughput --tasks HalfCheetah-v5 Hopper-v5 Humanoid-v5
	$(BIN)/python -m benchmarks.throughput_atari
	$(BIN)/python -m benchmarks.profile_iteration
	$(BIN)/python -m benchmarks.growth
	$(BIN)/python -m benchmarks.limits
	$(BIN)/python -m benchmarks.seeds_together

docs: $(READY)
	$(BIN)/python docs/site/build.py build/docs

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis runs
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
