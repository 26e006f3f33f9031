#!/bin/sh
# What `make fuzz` sets as RUSTC_WORKSPACE_WRAPPER: counts coverage in our library and in the targets, and nowhere else.
# Cargo calls it for our own crates only and keeps what it makes apart from an ordinary build, so the dependencies are
# those that the tests were built with. Optimised a little, as the tests are not: reading a configuration takes a third of the
# time. All flags are stable: no nightly, and no RUSTC_BOOTSTRAP.
rustc=$1
shift
case " $* " in
*" --crate-name nearside "*" --crate-type lib "* | *" --crate-name fuzz "*)
    set -- "$@" -C opt-level=1 -C passes=sancov-module \
        -C llvm-args=-sanitizer-coverage-level=4 \
        -C llvm-args=-sanitizer-coverage-inline-8bit-counters \
        -C llvm-args=-sanitizer-coverage-pc-table \
        -C llvm-args=-sanitizer-coverage-trace-compares
    ;;
esac
exec "$rustc" "$@"
