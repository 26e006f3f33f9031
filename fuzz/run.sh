#!/usr/bin/env bash
# Builds the fuzz targets and runs them; `fuzz/README.md` tells the rest.
#   fuzz/run.sh check            each target RUNS times from the seeds, always the same way, and the planted panic is found
#   fuzz/run.sh long [TARGET..]  each target for MINUTES, going on from what earlier runs found worth keeping
#   fuzz/run.sh again FILE       one finding again; its name begins with its target's
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

RUNS=${RUNS:-100000}       # executions of each target in `check`
MINUTES=${MINUTES:-10}     # of each target in `long`
JOBS=${JOBS:-2}            # targets at once
SEED=${SEED:-1}            # of `check`; `long` draws its own
PLANTED_RUNS=20000000      # within which the planted panic must be found
OUT=target/fuzz
PROGRAM=target/debug/examples/fuzz
# The slowest first, so that it does not run alone at the end.
TARGETS=(config reflection envelope announcement certificate-url certificate signature request key policy digest coding projection batch template token jwks grants deny)

build() {
    local started=$SECONDS
    RUSTC_WORKSPACE_WRAPPER="$PWD/fuzz/rustc.sh" cargo build --locked --quiet --features fuzz --example fuzz --target-dir target
    printf 'built in %d s\n' $((SECONDS - started))
}

# one TARGET DIRECTORY FLAGS..: runs a target with a directory that it may add to; its output is a log of that name.
one() {
    local target=$1 kept=$2 words=()
    shift 2
    mkdir -p "$kept" "$OUT/found" "$OUT/logs"
    [ ! -e "fuzz/words/$target" ] || words=("-dict=fuzz/words/$target")
    FUZZ_TARGET=$target "$PROGRAM" "$kept" "fuzz/corpus/$target" "${words[@]}" -artifact_prefix="$OUT/found/$target-" \
        -timeout=20 -rss_limit_mb=1024 -print_final_stats=1 -verbosity=1 "$@" >"$OUT/logs/$target" 2>&1
}

# told TARGET: one line of figures; cov: edges of our code that were reached, features: those with how often.
told() {
    awk -v target="$1" '
        / cov: / { for (i = 1; i < NF; i++) { if ($i == "cov:") cov = $(i + 1); if ($i == "ft:") ft = $(i + 1)
                                              if ($i == "corp:") corp = $(i + 1) } }
        /^stat::number_of_executed_units/ { runs = $2 }
        /^stat::average_exec_per_sec/ { speed = $2 }
        /^Done / { for (i = 1; i < NF; i++) if ($i == "in") took = $(i + 1) }
        END { printf "%-16s %10d runs %4d s %7d /s   %5d edges %6d features, corpus %s\n", target, runs, took, speed, cov, ft, corp }
    ' "$OUT/logs/$1"
}

# finding TARGET: what was found and how to see it again.
finding() {
    printf '%s: FOUND, see %s\n' "$1" "$OUT/logs/$1"
    grep -m 1 -A 3 -E "panicked at|ERROR: libFuzzer" "$OUT/logs/$1" || tail -n 5 "$OUT/logs/$1"
    sed -n 's/.*Test unit written to \(.*\)/again with: fuzz\/run.sh again \1/p' "$OUT/logs/$1"
}

# each MODE TARGET..: runs targets, JOBS at a time, and prints each one's figures as it ends. Fails when one does.
each() {
    local mode=$1 target failed=0 running=0
    shift
    for target in "$@"; do
        if [ "$running" -ge "$JOBS" ]; then
            wait -n || failed=1
            running=$((running - 1))
        fi
        "$mode" "$target" &
        running=$((running + 1))
    done
    for ((; running > 0; running--)); do
        wait -n || failed=1
    done
    return $failed
}

bounded() {
    [ "$1" != planted ] || { planted; return; }
    rm -rf "$OUT/check/$1"
    one "$1" "$OUT/check/$1" -runs="$RUNS" -seed="$SEED" || { finding "$1"; return 1; }
    told "$1"
    local runs
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$OUT/logs/$1")
    [ "${runs:-0}" -ge "$RUNS" ] || { printf '%s: only %d runs\n' "$1" "${runs:-0}"; return 1; }
}

lasting() {
    one "$1" "$OUT/kept/$1" -max_total_time=$((MINUTES * 60)) || { finding "$1"; return 1; }
    told "$1"
}

planted() {
    rm -rf "$OUT/check/planted"
    if one planted "$OUT/check/planted" -runs=$PLANTED_RUNS -seed="$SEED" -max_len=16 || ! grep -q 'the planted panic' "$OUT/logs/planted"; then
        printf 'planted: NOT found in %d runs: is coverage counted? see fuzz/rustc.sh\n' $PLANTED_RUNS
        return 1
    fi
    rm -f "$OUT"/found/planted-*
    sed -n 's/^stat::number_of_executed_units: */planted: found, as it must be, after runs: /p' "$OUT/logs/planted"
}

mkdir -p "$OUT"
case ${1:-} in
check)
    build
    each bounded "${TARGETS[@]}" planted || { printf 'the check failed\n'; exit 1; }
    printf '%d targets, %d runs each, nothing found, in %d s\n' ${#TARGETS[@]} "$RUNS" "$SECONDS"
    ;;
long)
    shift
    build
    [ $# -gt 0 ] || set -- "${TARGETS[@]}"
    each lasting "$@"
    ;;
again)
    build
    name=$(basename "$2")
    for target in "${TARGETS[@]}" planted; do
        [[ $name != $target-@(crash|timeout|oom|leak|slow)* ]] || FUZZ_TARGET=$target exec "$PROGRAM" "$2"
    done
    printf 'the name of %s begins with no target\n' "$2"
    exit 2
    ;;
*)
    sed -n '2,5p' "${BASH_SOURCE[0]}"
    exit 2
    ;;
esac
