#!/bin/sh
# Makes the four publishers ready to run, and prints a line for each: the command that runs it (a topic's ARN goes after
# it), or which toolchain is missing.
#
# usage: setup.sh [DIRECTORY]        default: target/publishers beside Cargo.toml
#
# Idempotent: a stamp beside each holds the hash of what it was made from, and nothing happens while it agrees.
# A missing toolchain is no error, a failed installation is. Everything but those lines goes to stderr.
set -eu

here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
root=$(CDPATH= cd -- "$here/../.." && pwd)
made=${1:-"$root/target/publishers"}
mkdir -p "$made"
made=$(CDPATH= cd -- "$made" && pwd)

say() { printf 'publishers: %s\n' "$*" >&2; }

hash_of() {
    cat "$@" | if command -v sha256sum >/dev/null 2>&1; then sha256sum; else shasum -a 256; fi | cut -d' ' -f1
}

# A candidate counts only when it runs: a `python3.13` on PATH can be a shim without a Python behind it.
works() { "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; }

find_python() {
    for candidate in "${NEARSIDE_PYTHON:-}" python3 python3.13 python3.12 python3.11 python; do
        if [ -n "$candidate" ] && works "$candidate"; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    return 1
}

has_node() {
    npm --version >/dev/null 2>&1 && node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' 2>/dev/null
}

has_go() {
    minor=$(go env GOVERSION 2>/dev/null | sed -n 's/^go1\.\([0-9]*\).*/\1/p')
    [ "${minor:-0}" -ge 22 ]
}

has_java() {
    major=$(javac -version 2>&1 | sed -n 's/^javac \([0-9]*\).*/\1/p')
    [ "${major:-0}" -ge 17 ] && java -version >/dev/null 2>&1 && mvn -version >/dev/null 2>&1
}

make_python() {
    "$(find_python)" -m venv "$1" &&
        "$1/bin/python" -m pip install --quiet --disable-pip-version-check -r "$here/python/requirements.txt"
}

# An ES module finds packages only in a node_modules above itself, so it goes there.
make_node() {
    cp "$here/node/package.json" "$here/node/package-lock.json" "$here/node/publisher.mjs" "$1" &&
        (cd "$1" && npm ci --silent --no-audit --no-fund)
}

make_go() { (cd "$here/go" && go build -buildvcs=false -trimpath -ldflags '-s -w' -o "$1/publisher" .); }

make_java() {
    mvn --quiet --batch-mode -f "$here/java/pom.xml" dependency:copy-dependencies -DincludeScope=runtime \
        -DoutputDirectory="$1/jars" && javac -d "$1/classes" -cp "$1/jars/*" "$here/java/"*.java
}

ready() { [ "$(cat "$made/$1/.stamp" 2>/dev/null)" = "$2" ]; }

# prepare LANGUAGE SOURCE...: made beside and moved into place, so that two at once do not meet in it.
prepare() {
    language=$1
    shift
    want=$(hash_of "$@")
    ready "$language" "$want" && return
    say "making the $language publisher (once)"
    fresh="$made/$language.$$"
    mkdir "$fresh"
    # A registry that hiccups gets a second chance.
    if ! "make_$language" "$fresh" >&2 && ! { sleep 5 && rm -rf "$fresh" && mkdir "$fresh" && "make_$language" "$fresh" >&2; }; then
        say "the $language publisher could not be made; why is above (a registry it cannot reach, most often)"
        return 1
    fi
    printf '%s\n' "$want" >"$fresh/.stamp"
    if ! ready "$language" "$want"; then
        rm -rf "${made:?}/$language"
        # Whoever comes second finds the first one's, which is as good.
        mv "$fresh" "$made/$language" 2>/dev/null || ready "$language" "$want"
    fi
}

trap 'rm -rf "$made"/*.$$' EXIT
failed=0
if ! find_python >/dev/null; then
    echo 'python: missing: Python 3.9 or newer with its venv module (Debian: python3 and python3-venv)'
elif prepare python "$here/python/requirements.txt"; then
    echo "python: $made/python/bin/python $here/python/publisher.py"
else
    failed=1
fi
if ! has_node; then
    echo 'node: missing: Node 20 or newer with npm'
elif prepare node "$here/node/package.json" "$here/node/package-lock.json" "$here/node/publisher.mjs"; then
    echo "node: node $made/node/publisher.mjs"
else
    failed=1
fi
if ! has_go; then
    echo 'go: missing: Go 1.22 or newer'
elif prepare go "$here/go/"*.go "$here/go/go.mod" "$here/go/go.sum"; then
    echo "go: $made/go/publisher"
else
    failed=1
fi
if ! has_java; then
    echo 'java: missing: a JDK 17 or newer and Maven'
elif prepare java "$here/java/"*.java "$here/java/pom.xml"; then
    echo "java: java -cp $made/java/classes:$made/java/jars/* Orders"
else
    failed=1
fi
exit "$failed"
