#!/bin/sh
# Instructions of one hit, in-process, counted by valgrind: the same on every run and on a busy machine. Two runs of
# different length tell it apart from the start-up.
set -eu
cd "$(dirname "$0")/.."

command -v valgrind >/dev/null || { echo 'instructions: valgrind is not installed; they are NOT counted'; exit 0; }
program=${1:-$(cargo bench --locked --bench hit --no-run 2>&1 | sed -n 's/.*(\(.*\)).*/\1/p' | tail -n 1)}

count() {
    NEARSIDE_HITS=$1 valgrind --tool=callgrind --callgrind-out-file=/dev/null "$program" 2>&1 | sed -n 's/.*Collected : \([0-9]*\).*/\1/p'
}

few=$(count 1000)
many=$(count 3000)
echo "a hit takes $(( (many - few) / 2000 )) instructions (request made, served, response dropped)"
