# Two commands do all set-up on a fresh machine: `make run` and `make test`.
# Both share .venv and reuse it until the pins or the project file change.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
ARGS   ?=

# SYSTEM_TORCH=1 reuses a torch that $(PYTHON) can already import (a GPU box has its own build).
SYSTEM_TORCH ?=
ifeq ($(SYSTEM_TORCH),1)
VENV_FLAGS := --system-site-packages
endif

.PHONY: run test format screenshots watching-cost screen-cost replay-cost gpu-checks clean

run: $(VENV)/.engine
	@$(BIN)/python -m kvtui.engine.kernels.warm --alone >/dev/null 2>&1 &
	@$(BIN)/python -m kvtui $(ARGS)

test: $(VENV)/.test
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m pytest

format: $(VENV)/.test
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

screenshots: $(VENV)/.test
	@$(BIN)/python -m tests.tui.screenshot

watching-cost: $(VENV)/.test
	@$(BIN)/python -m tests.tui.watching_cost

screen-cost: $(VENV)/.test
	@$(BIN)/python -m tests.tui.screen_cost

replay-cost: $(VENV)/.test
	@$(BIN)/python -m tests.tui.replay_cost

# On a GPU box, at most eight minutes: tests marked cuda, proofs, bench; JSON and logs into OUT.
gpu-checks: $(VENV)/.test
	@$(BIN)/python -m tests.bench.gpu_checks "$(OUT)"

clean:
	rm -rf $(VENV)

$(VENV)/.venv:
	@echo "kvtui: creating $(VENV)" >&2
	@$(PYTHON) -m venv $(VENV_FLAGS) $(VENV)
	@touch $@

# Stage one: the screen and sizing, a few MB.
$(VENV)/.screen: $(VENV)/.venv constraints.txt pyproject.toml
	@echo "kvtui: installing the screen and sizing (about 15 MB)" >&2
	@$(PIP) install --quiet --constraint constraints.txt msgspec nvidia-ml-py 'plotext<6' psutil textual 'hatchling>=1.27' editables
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# Stage two: torch, for live runs.
$(VENV)/.engine: $(VENV)/.screen
ifeq ($(SYSTEM_TORCH),1)
	@$(BIN)/python -c 'import torch; print("kvtui: using the torch", torch.__version__, "that is already here")' >&2
else
	@echo "kvtui: installing torch for live runs (200 MB for a CPU build, several GB with CUDA)" >&2
	@$(PIP) install --quiet --constraint constraints.txt torch
endif
	@$(PIP) install --quiet --constraint constraints.txt numba || echo "kvtui: no numba here; torch's own attention will do" >&2
	@touch $@

$(VENV)/.test: $(VENV)/.engine
	@echo "kvtui: installing the test tools" >&2
ifeq ($(SYSTEM_TORCH),1)
	@$(PIP) install --quiet --constraint constraints.txt $$($(BIN)/python -c 'import tomllib; print(*("\"%s\"" % d for d in tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["test"]))' | tr -d '"')
else
	@$(PIP) install --quiet --constraint constraints.txt --no-build-isolation --editable '.[test]'
endif
	@echo "kvtui: compiling the CPU decode kernel (half a minute, once)" >&2
	@$(BIN)/python -m kvtui.engine.kernels.warm
	@touch $@
