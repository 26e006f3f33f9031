#!/bin/sh
# Instructions of what Nearside does most, in-process, counted by valgrind: a few in a thousand more or less from run to
# run, also on a busy machine. Two runs of different length tell each apart from the start-up. One line each, `name
# count`, as in baseline.txt.
#
# The programs are built with the library that the simulator was built with (optimised, and each rule with its switch), so
# that after the tests only they are left to build. The counts tell what a change costs, not what a release takes.
set -eu
cd "$(dirname "$0")/.."

command -v valgrind >/dev/null || { echo 'instructions: valgrind is not installed; they are NOT counted' >&2; exit 0; }

programs=$(CARGO_INCREMENTAL=0 CARGO_PROFILE_TEST_OPT_LEVEL=3 CARGO_PROFILE_TEST_DEBUG=0 cargo test --locked --features switches --bench hit \
    --bench race --bench announcements --no-run 2>&1) ||
    { echo "$programs" >&2; exit 1; }
program() {
    echo "$programs" | sed -n "s|.*Executable benches/$1\.rs (\(.*\)).*|\1|p"
}

# of PROGRAM VARIABLE COUNT: instructions of a run that does COUNT of them.
of() {
    said=$(env "$2=$3" valgrind --tool=callgrind --callgrind-out-file=/dev/null "$1" 2>&1) || {
        # A program that crashed has counted nothing.
        echo "$said" >&2
        return 1
    }
    echo "$said" | sed -n 's/.*Collected : \([0-9]*\).*/\1/p'
}

# each NAME PROGRAM VARIABLE FEW MANY
each() {
    few=$(of "$2" "$3" "$4") && many=$(of "$2" "$3" "$5") && [ -n "$few" ] && [ -n "$many" ] || {
        echo "instructions: $1 could not be counted: it does not run under valgrind; what that says is above" >&2
        exit 1
    }
    echo "$1 $(((many - few) / ($5 - $4)))"
}

hit=$(program hit) race=$(program race) announcements=$(program announcements)
each hit "$hit" NEARSIDE_HITS 1000 3000
each hit-under-permit "$hit" NEARSIDE_PERMITTED_HITS 1000 3000
each hit-by-hyper "$hit" NEARSIDE_ADMITTED_HITS 1000 3000
each fields "$hit" NEARSIDE_FIELDS 1000 3000
each key-of-a-batch "$hit" NEARSIDE_BATCHED_KEYS 10000 30000
each key "$hit" NEARSIDE_KEYS 1000 3000
each judgement "$hit" NEARSIDE_JUDGEMENTS 1000 3000
each miss "$race" NEARSIDE_MISSES 1000 3000
each race-bookkeeping "$race" NEARSIDE_TALLIES 1000 3000
each apply "$announcements" NEARSIDE_APPLY 1000 3000
