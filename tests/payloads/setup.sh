#!/bin/sh
# Makes the public data set that `nearside-lab bench --only payload` measures on, and prints where it is: a Python virtual
# environment with airportsdata (MIT) and zstandard, and in its `set` the records and dictionaries trained on half of
# them. The same environment is the other implementation of zstd in tests/it/payloads.rs.
#
# usage: setup.sh [DIRECTORY]        default: target/payloads beside Cargo.toml
#
# Idempotent: a stamp in the environment holds the hash of what made it, and nothing happens while it agrees. Everything
# but the last line of its output goes to stderr.
set -eu

here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
root=$(CDPATH= cd -- "$here/../.." && pwd)
venv=${1:-"$root/target/payloads"}
pins="$here/requirements.txt"

say() { printf 'payloads: %s\n' "$*" >&2; }

hash_all() { cat "$pins" "$here/make.py" | if command -v sha256sum >/dev/null 2>&1; then sha256sum; else shasum -a 256; fi; }
want=$(hash_all)
ready() { [ -e "$venv/set/json.dictionary" ] && [ "$(cat "$venv/.pins" 2>/dev/null)" = "$want" ]; }

# A candidate counts only when it runs: a `python3.13` on PATH can be a shim without a Python behind it.
works() { "$1" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    for candidate in "${NEARSIDE_PYTHON:-}" python3 python3.13 python3.12 python3.11 python; do
        if [ -n "$candidate" ] && works "$candidate"; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    say "no working Python 3.11 or newer with its venv module was found (Debian: python3 and python3-venv)"
    return 1
}

if ! ready; then
    python=$(find_python) || exit 1
    say "installing airportsdata and zstandard into $venv with $python (once)"
    # Made beside and moved into place, so that two at once do not meet in it.
    fresh="$venv.$$"
    trap 'rm -rf "$fresh"' EXIT
    rm -rf "$fresh"
    mkdir -p "$(dirname -- "$fresh")"
    "$python" -m venv "$fresh" >&2
    "$fresh/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: --require-hashes -r "$pins" >&2 || {
        say "pip could not install $pins; what it said is above (an index it cannot reach, most often)"
        exit 1
    }
    mkdir "$fresh/set"
    "$fresh/bin/python" "$here/make.py" "$fresh/set" >&2
    printf '%s\n' "$want" >"$fresh/.pins"
    if ! ready; then
        rm -rf "$venv"
        # The second one finds the first one's, which is as good.
        mv "$fresh" "$venv" 2>/dev/null || ready
    fi
fi
printf '%s\n' "$venv"
