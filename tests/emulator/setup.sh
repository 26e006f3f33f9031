#!/bin/sh
# Makes the tests' AWS emulator (LocalEmu, in a Python 3.13 virtual environment) and prints where it is.
#
# usage: setup.sh [DIRECTORY]        default: target/emulator beside Cargo.toml
#
# Idempotent: a stamp in the environment holds the hash of requirements.txt and of what is put behind moto's DynamoDB
# (one_at_a_time.py), and nothing happens while it agrees.
# Two at once wait for each other. Everything but the last line of its output goes to stderr.
set -eu

here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
root=$(CDPATH= cd -- "$here/../.." && pwd)
venv=${1:-"$root/target/emulator"}
pins="$here/requirements.txt"
mended="$here/one_at_a_time.py"

say() { printf 'emulator: %s\n' "$*" >&2; }

# A candidate counts only when it runs and says 3.13: a `python3.13` on PATH can be a shim without a Python behind it.
works() {
    [ -n "$1" ] && [ "$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" = 3.13 ]
}

candidates() {
    [ -n "${NEARSIDE_PYTHON:-}" ] && printf '%s\n' "$NEARSIDE_PYTHON"
    printf '%s\n' python3.13 python3 python
    for pyenv in "$(pyenv root 2>/dev/null || :)" "$HOME/.pyenv" /opt/pyenv; do
        [ -n "$pyenv" ] && printf '%s\n' "$pyenv"/versions/3.13*/bin/python
    done
    uv python find 3.13 2>/dev/null || :
    printf '%s\n' /usr/bin/python3.13 /usr/local/bin/python3.13 /opt/homebrew/bin/python3.13
}

find_python() {
    candidates | while IFS= read -r candidate; do
        if works "$candidate"; then
            printf '%s\n' "$candidate"
            break
        fi
    done
}

# LocalEmu installs on 3.11 and 3.12 as well, and then answers every call with 500.
missing() {
    say "no working Python 3.13 was found; the emulator runs on nothing else. Any of these provides one:"
    say "  pyenv install 3.13"
    say "  uv python install 3.13"
    say "  the packages python3.13 and python3.13-venv of your distribution"
    say "or name one: NEARSIDE_PYTHON=/path/to/python3.13"
    exit 1
}

hash_pins() {
    cat "$pins" "$mended" | if command -v sha256sum >/dev/null 2>&1; then sha256sum; else shasum -a 256; fi | cut -d' ' -f1
}

ready() { [ -x "$venv/bin/localemu" ] && [ "$(cat "$venv/.pins" 2>/dev/null)" = "$1" ]; }

# One set-up at a time: test binaries of one `cargo test` may start together. A lock whose owner is gone is broken.
lock="$venv.lock"
take_lock() {
    mkdir -p "$(dirname -- "$venv")"
    waited=0
    until mkdir "$lock" 2>/dev/null; do
        owner=$(cat "$lock/pid" 2>/dev/null || :)
        if [ -n "$owner" ] && ! kill -0 "$owner" 2>/dev/null; then
            rm -rf "$lock"
            continue
        fi
        waited=$((waited + 1))
        if [ "$waited" -gt 600 ]; then
            say "waited ten minutes for another set-up; if none runs, remove $lock"
            exit 1
        fi
        sleep 1
    done
    echo "$$" >"$lock/pid"
    trap 'rm -rf "$lock"' EXIT
    trap 'exit 130' INT TERM HUP
}

install() {
    if command -v uv >/dev/null 2>&1; then
        uv venv --quiet --python "$python" "$venv" >&2 &&
            uv pip install --quiet --python "$venv/bin/python" -r "$pins" >&2 && return
        say "uv could not install the pins; trying pip"
        rm -rf "$venv"
    fi
    "$python" -m venv "$venv" >&2 || {
        say "$python cannot make a virtual environment; its venv module is missing (Debian: python3.13-venv)"
        exit 1
    }
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$pins" >&2 || {
        say "pip could not install $pins; what it said is above (an index it cannot reach, most often)"
        exit 1
    }
}

want=$(hash_pins)
if ! ready "$want"; then
    take_lock
    if ! ready "$want"; then
        python=$(find_python)
        [ -n "$python" ] || missing
        say "installing LocalEmu into $venv with $python (a minute, once)"
        rm -rf "$venv"
        install
        cat "$mended" >>"$venv/lib/python3.13/site-packages/moto/dynamodb/models/__init__.py"
        "$venv/bin/localemu" --version >/dev/null 2>&1 || {
            say "installed, but '$venv/bin/localemu --version' fails"
            exit 1
        }
        printf '%s\n' "$want" >"$venv/.pins"
    fi
fi
printf '%s\n' "$venv"
