# `make demo` and `make test` do all set-up on a fresh machine with Python 3.11 or later, make and a C++ compiler.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo check test test-all docs browser llama bench wheels manylinux libraries web web-demo clean

demo: .venv/ready
	$(BIN)/python examples/digits.py

# In about a minute: style, types and the fast tests.
check: .venv/ready
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/python -m pytest -n 2 -m "not (slow or thorough or gpu or browser or ray)"

test: .venv/ready .venv/runtime browser
	@if command -v npm >/dev/null; then web/build.sh $(BIN)/python || [ $$? = 3 ]; \
	else echo "no node and npm here: tests of the runtime for web pages are skipped"; fi
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/python -m pytest -n 2 --cov --cov-report=term --cov-fail-under=95
	cd runtime && ../$(BIN)/python -m mypy && ../$(BIN)/python -m pytest -n 2

# Also the tests that take too long for every change (marked `thorough`).
test-all: test
	$(BIN)/python -m pytest -n 2 -m thorough

# The documentation as a site that opens without a server.
docs: .venv/ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "Open site/index.html"

# For the tests of the page; without it they are skipped, and say so.
browser:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends chromium; } \
	    >/dev/null 2>&1 || echo "Chromium could not be installed: tests of the page are skipped"; \
	else echo "no Chromium here: tests of the page are skipped"; fi

# llama.cpp, for the tests that compare GGUF files with it; without it they are skipped, and say so. It takes 670 MB.
llama:
	npm install --ignore-scripts --no-save --prefix .venv/llama node-llama-cpp@3.22.1

# The runtime as WebAssembly, web/dist/adaste_runtime.wasm, and the demonstration; needs node and npm, brings zig and
# binaryen.
web: .venv/ready
	web/build.sh $(BIN)/python

web-demo: web
	$(BIN)/python -m webbrowser http://127.0.0.1:8000 || true
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory web/build/demo 8000

bench: .venv/ready
	$(BIN)/python benchmarks/step.py

.venv/ready: pyproject.toml constraints.txt zoo/pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[demo,dev,docs]' \
	  --editable ./zoo
	touch $@

# The torch-free runtime, compiled for this machine; again whenever its sources change. Its build folder is kept, so
# that only what changed is compiled.
RUNTIME := $(shell find runtime/src runtime/include -type f -not -name '*.pyc' -not -path '*/testing/*') $(addprefix runtime/,CMakeLists.txt pyproject.toml README.md LICENSE)

.venv/runtime: .venv/ready $(RUNTIME)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps ./runtime
	touch $@

# All packages as files for `pip install`, in dist/.
wheels: .venv/ready
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist ./runtime
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist ./zoo
	@ls dist

# The runtime's wheels for every Linux with glibc 2.28 or later, x86-64 and ARM, and for Windows, and its C library for
# other systems, in dist/. Both bring zig; the first time takes minutes.
manylinux: .venv/ready
	runtime/wheels.sh $(BIN)/python dist

libraries: .venv/ready
	runtime/libraries.sh $(BIN)/python dist/libraries

clean:
	rm -rf .venv build dist site runtime/build web/build web/dist
