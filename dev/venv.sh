#!/usr/bin/env bash
# Makes or refreshes the virtual environment .venv: `dev/venv.sh run` for the program, `dev/venv.sh test` for all tools.
# Quick when nothing changed: .venv/stamp-LEVEL holds a hash of what pyproject.toml asks for.
# PYTHON=/path/to/python3.12 chooses the interpreter; else the first of 3.11 or newer on PATH is taken.
set -euo pipefail
cd "$(dirname "$0")/.."
level=${1:-run}
venv=.venv

fail() { printf 'venv: %s\n' "$*" >&2; exit 1; }

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

choose_python() {
  if [ -n "${PYTHON:-}" ]; then
    command -v "$PYTHON" >/dev/null || fail "PYTHON=$PYTHON is not a program on this machine"
    new_enough "$PYTHON" || fail "PYTHON=$PYTHON must be Python 3.11 or newer, it is $("$PYTHON" -V 2>&1)"
    printf '%s' "$PYTHON"
    return
  fi
  local candidate
  for candidate in python3 python3.13 python3.12 python3.11 python3.14; do
    if command -v "$candidate" >/dev/null && new_enough "$candidate"; then
      printf '%s' "$candidate"
      return
    fi
  done
  fail "Python 3.11 or newer is needed; found $(python3 -V 2>&1 || echo none). On Debian 12 or Ubuntu 24.04:
    apt install python3 python3-venv
  or name one with PYTHON=/path/to/python3.12"
}

make_venv() {
  local python=$1
  if "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    "$python" -m venv "$venv"
  elif command -v uv >/dev/null; then
    uv venv --quiet --seed --python "$python" "$venv"
  else
    rm -rf "$venv"
    fail "$("$python" -V) has no ensurepip, so it cannot make a virtual environment. On Debian and Ubuntu:
    apt install python3-venv"
  fi
}

# Two `make` at the same time wait for each other. The lock lies beside the folder, which may be made anew.
exec 9>.venv.lock
if command -v flock >/dev/null; then flock 9; fi

if [ ! -x "$venv/bin/python" ] || ! new_enough "$venv/bin/python"; then
  python=$(choose_python)
  rm -rf "$venv"
  make_venv "$python"
fi

key=$("$venv/bin/python" dev/requirements.py --key "$level")
if [ -f "$venv/stamp-$level" ] && [ "$(cat "$venv/stamp-$level")" = "$key" ]; then
  exit 0
fi
printf 'venv: installing what pyproject.toml asks for (%s) ...\n' "$level" >&2
mapfile -t requirements < <("$venv/bin/python" dev/requirements.py "$level")
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable . "${requirements[@]}" </dev/null ||
  fail "pip could not install the packages above. Is a package index within reach?"
printf '%s' "$key" >"$venv/stamp-$level"
