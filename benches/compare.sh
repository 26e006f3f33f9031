#!/bin/sh
# Counts instructions and prints how they differ from benches/baseline.txt. A difference is information, never a failure:
# what a change costs is for whoever reads it. `compare.sh --write` makes the present counts the baseline.
set -eu
cd "$(dirname "$0")/.."

counted=$(benches/instructions.sh)
[ -n "$counted" ] || exit 0
if [ "${1:-}" = --write ]; then
    echo "$counted" >benches/baseline.txt
    cat benches/baseline.txt
    exit 0
fi
[ -f benches/baseline.txt ] || {
    echo "$counted"
    echo "compare: there is no benches/baseline.txt yet; 'benches/compare.sh --write' makes these counts it" >&2
    exit 0
}
echo "$counted" | awk '
    NR == FNR { before[$1] = $2; next }
    FNR == 1 { printf "%-18s %10s %10s %9s\n", "instructions", "baseline", "now", "change" }
    {
        if ($1 in before) printf "%-18s %10d %10d %+8.1f%%\n", $1, before[$1], $2, ($2 - before[$1]) * 100 / before[$1]
        else printf "%-18s %10s %10d %9s\n", $1, "-", $2, "new"
    }' benches/baseline.txt -
