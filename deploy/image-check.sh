#!/usr/bin/env bash
# Finds in seconds what would stop the images' build half an hour later: goes through the Dockerfile's stages that build, with
# exactly the files that each COPY brings, and runs its steps with `cargo check` for `cargo build`. Needs no buildah and
# no root. `make image` builds and runs the real thing.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
# Always the same place: cargo keeps what it knows of a package by its path.
work=$target/image-check

say() { printf 'image-check: %s\n' "$*"; }
fail() { say "FAILED: $*"; exit 1; }

# The build context: what .dockerignore sends. It is read for the form it has: nothing (`*`), but for whole paths.
send_context() {
    local line
    [ "$(grep -v '^#' "$root/.dockerignore" | head -n 1)" = '*' ] || fail ".dockerignore does not begin with *"
    while read -r line; do
        case $line in
            '!'*[\*\?]* | [!\!]*) fail "cannot read .dockerignore's \"$line\": only !PATH is understood" ;;
            '!'*) cp -R --parents "./${line#!}" "$work/context" || fail ".dockerignore names ${line#!}" ;;
        esac
    done < <(grep -v -e '^#' -e '^$' -e '^\*$' "$root/.dockerignore")
}

# A cargo that checks where it should build, and shares the dependencies with the rest of CI.
make_cargo() {
    mkdir "$work/bin"
    cat >"$work/bin/cargo" <<CARGO
#!/usr/bin/env bash
set -euo pipefail
[ "\$1" = build ] || { echo "image-check: only knows cargo build, not cargo \$1" >&2; exit 1; }
shift
kept=()
while [ \$# -gt 0 ]; do
    case \$1 in
        --release) ;;
        --target) shift ;;
        *) kept+=("\$1") ;;
    esac
    shift
done
exec "$(command -v cargo)" check --quiet --target-dir "$target" "\${kept[@]}"
CARGO
    chmod 755 "$work/bin/cargo"
}

copy() {
    local words=("$@")
    local to=${words[-1]} from
    unset 'words[-1]'
    case $to in */) mkdir -p "$work/src/$to" ;; esac
    for from in "${words[@]}"; do
        [ "${from#--}" = "$from" ] || fail "cannot follow COPY $*"
        [ -e "$work/context/$from" ] || fail "COPY $from: .dockerignore sends no such path"
        if [ -d "$work/context/$from" ]; then
            mkdir -p "$work/src/$to" && cp -R "$work/context/$from/." "$work/src/$to/"
        else
            cp "$work/context/$from" "$work/src/$to"
        fi
    done
}

rm -rf "$work"
mkdir -p "$work/context" "$work/src"
cd "$root"
send_context
make_cargo
builds=no built=0
while read -r word rest; do
    if [ "$word" = FROM ]; then
        # What is built from `scratch` only brings files together.
        [[ $rest = scratch* ]] && builds=no || builds=yes
        continue
    fi
    [ "$builds" = yes ] || [ "$word" = ARG ] || continue
    case $word in
        COPY) read -ra words <<<"$rest"; copy "${words[@]}" ;;
        RUN)
            # The other steps put images together from files of the builder.
            [[ $rest == *'cargo build'* ]] || continue
            (cd "$work/src" && PATH=$work/bin:$PATH sh -ec "$rest") || fail "RUN $rest"
            built=$((built + 1))
            ;;
        ARG | ENV | WORKDIR) ;;
        *) fail "does not know $word" ;;
    esac
# Comments go, continued lines become one.
done < <(grep -v -e '^ *#' -e '^$' Dockerfile | sed -e ':a' -e '/\\$/N; s/\\\n//; ta')
[ "$built" -ge 3 ] || fail "found $built steps that build, expected the dependencies, Nearside itself and the lab"
say "passed: $built steps build from what the Dockerfile brings"
