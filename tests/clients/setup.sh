#!/bin/sh
# Makes what the drop-in tests' clients need and prints where it is: a Python virtual environment with requests and
# protobuf, and Node's Protobuf library beside them. Node, its npm and curl are taken as they are, and asked for clearly
# when they are missing or too old.
#
# usage: setup.sh [DIRECTORY]        default: target/clients beside Cargo.toml
#
# Idempotent: a stamp in the environment holds the hash of what is pinned, and nothing happens while it agrees.
# Everything but the last line of its output goes to stderr.
set -eu

here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
root=$(CDPATH= cd -- "$here/../.." && pwd)
venv=${1:-"$root/target/clients"}
pins="$here/requirements.txt"
lock="$here/package-lock.json"

say() { printf 'clients: %s\n' "$*" >&2; }

node -e 'process.exit(typeof fetch === "function" && Number(process.versions.node.split(".")[0]) >= 18 ? 0 : 1)' \
    2>/dev/null || { say "Node 18 or newer is needed on PATH (its fetch is one of the clients)"; exit 1; }
curl --version >/dev/null 2>&1 || { say "curl is needed on PATH"; exit 1; }

npm --version >/dev/null 2>&1 || { say "npm is needed on PATH (it comes with Node)"; exit 1; }

hash() { if command -v sha256sum >/dev/null 2>&1; then sha256sum; else shasum -a 256; fi; }
want=$(cat "$pins" "$lock" | hash)
ready() { [ -x "$venv/bin/python" ] && [ "$(cat "$venv/.pins" 2>/dev/null)" = "$want" ]; }

# A candidate counts only when it runs: a `python3.13` on PATH can be a shim without a Python behind it.
works() { "$1" -c 'import sys, venv; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; }

find_python() {
    for candidate in "${NEARSIDE_PYTHON:-}" python3 python3.13 python3.12 python3.11 python; do
        if [ -n "$candidate" ] && works "$candidate"; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    say "no working Python 3.9 or newer with its venv module was found (Debian: python3 and python3-venv)"
    return 1
}

if ! ready; then
    python=$(find_python) || exit 1
    say "installing requests and Protobuf's libraries into $venv with $python and npm (once)"
    # Made beside and moved into place, so that two at once do not meet in it.
    fresh="$venv.$$"
    trap 'rm -rf "$fresh"' EXIT
    rm -rf "$fresh"
    mkdir -p "$(dirname -- "$fresh")"
    "$python" -m venv "$fresh" >&2
    "$fresh/bin/python" -m pip install --quiet --disable-pip-version-check -r "$pins" >&2 || {
        say "pip could not install $pins; what it said is above (an index it cannot reach, most often)"
        exit 1
    }
    cp "$here/package.json" "$lock" "$fresh/"
    (cd "$fresh" && npm ci --silent --ignore-scripts --no-audit --no-fund >&2) || {
        say "npm could not install what $lock pins; what it said is above (a registry it cannot reach, most often)"
        exit 1
    }
    printf '%s\n' "$want" >"$fresh/.pins"
    if ! ready; then
        rm -rf "$venv"
        # The second one finds the first one's, which is as good.
        mv "$fresh" "$venv" 2>/dev/null || ready
    fi
fi
printf '%s\n' "$venv"
