#!/usr/bin/env bash
# Builds the Dockerfile with buildah into localhost/nearside, also where no registry of images can be reached.
#
#   deploy/image.sh            as root
#   deploy/image.sh lab        the lab's image instead, localhost/nearside-lab
#   IMAGE_BASE=pull            insist on the Dockerfile's own builder image
#   IMAGE_BASE=debootstrap     insist on a builder made here: Debian and this machine's Rust toolchain
#
# Where buildah is missing and cannot be installed it says so and ends with 0: that is the machine's lack, not the
# project's. A build that fails ends with its error.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
builder=localhost/nearside-builder:bookworm
image=localhost/nearside:latest target=()
case ${1:-} in
'') ;;
lab) image=localhost/nearside-lab:latest target=(--target lab) ;;
*) sed -n '4,7p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
# Where debootstrap gets Debian from; empty for its default.
mirror=${IMAGE_MIRROR:-}

say() { printf 'image: %s\n' "$*"; }
cannot() { say "$*; no image was built"; exit 0; }

# A tool, from the distribution where we may.
need() {
    command -v "$1" >/dev/null && return
    [ "$(id -u)" = 0 ] || cannot "$1 is not here, and only root could install it"
    command -v apt-get >/dev/null || cannot "$1 is not here, and there is no apt-get to install it with"
    say "installing $1"
    { apt-get install -qq -y --no-install-recommends "$1" || { apt-get update -qq && apt-get install -qq -y \
        --no-install-recommends "$1"; }; } >/dev/null </dev/null || cannot "$1 could not be installed"
}

# Settings of cargo that reach a mirror, a proxy or a private root: the builder made here reads them from a file that
# is mounted, so that nothing of them stays in a layer.
settings() {
    local name
    for name in ${!CARGO_HTTP_@} ${!CARGO_NET_@} ${!CARGO_REGISTR@} ${!CARGO_SOURCE_@} \
        http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
        [ -z "${!name+x}" ] || printf 'export %s=%q\n' "$name" "${!name}"
    done
    if [ -n "${CARGO_HTTP_CAINFO:-${SSL_CERT_FILE:-}}" ]; then echo 'export CARGO_HTTP_CAINFO=/mnt/cargo/ca.crt'; fi
}

# Debian with a C compiler and CA certificates, and commands that find the toolchain mounted at /mnt/rust.
make_builder() {
    need debootstrap
    local made
    made=$(mktemp -d)
    say "making a builder with debootstrap"
    debootstrap --variant=minbase --include=ca-certificates,gcc,g++,libc6-dev,make bookworm "$made" $mirror \
        >"$made.log" 2>&1 || { tail -n 5 "$made.log"; rm -rf "$made" "$made.log"; cannot "debootstrap failed"; }
    rm -rf "$made"/var/cache/apt/archives/*.deb "$made"/var/lib/apt/lists/* "$made.log"
    mkdir -p "$made/mnt/rust" "$made/mnt/cargo"
    local tool
    for tool in cargo rustc; do
        printf '#!/bin/bash\n[ ! -f /mnt/cargo/settings ] || . /mnt/cargo/settings\n%s\nexec /mnt/rust/bin/%s "$@"\n' \
            'export PATH=/mnt/rust/bin:$PATH CARGO_HOME=/mnt/cargo' "$tool" >"$made/usr/local/bin/$tool"
        chmod 755 "$made/usr/local/bin/$tool"
    done
    local from
    from=$(buildah from scratch)
    buildah add --quiet "$from" "$made" / >/dev/null
    buildah commit --quiet --rm "$from" "$builder" >/dev/null
    rm -rf "$made"
}

# The toolchain of this machine and a directory for cargo, as volumes of the build.
mounts() {
    local rust cargo=${CARGO_HOME:-$HOME/.cargo} here=$1
    rust=$(rustc --print sysroot)
    mkdir -p "$cargo/registry"
    settings >"$here/settings"
    local config ca=${CARGO_HTTP_CAINFO:-${SSL_CERT_FILE:-}}
    for config in config.toml config; do
        [ ! -f "$cargo/$config" ] || cp "$cargo/$config" "$here/config.toml"
    done
    [ -z "$ca" ] || cp -L "$ca" "$here/ca.crt"
    printf '%s\n' --volume "$rust:/mnt/rust:ro" --volume "$here:/mnt/cargo:rw" \
        --volume "$cargo/registry:/mnt/cargo/registry:rw"
}

build() {
    # HEALTHCHECK is of Docker's format; chroot isolation needs no runtime of containers.
    buildah build --isolation chroot --format docker --layers --tag "$image" "${target[@]}" "$@" "$root"
}

need buildah
[ "$(id -u)" = 0 ] || cannot "only root can build with chroot isolation"
pulled=$(sed -n 's/^ARG BUILDER=//p' "$root/Dockerfile")
base=${IMAGE_BASE:-}
if [ -z "$base" ]; then
    if timeout 120 buildah pull --quiet "$pulled" >/dev/null 2>&1; then base=pull; else base=debootstrap; fi
fi
say "building with ${base} as the way to a builder"
if [ "$base" = pull ]; then
    build
else
    command -v rustc >/dev/null || cannot "there is no Rust toolchain here for the builder"
    buildah inspect --type image "$builder" >/dev/null 2>&1 || make_builder
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    mapfile -t volumes < <(mounts "$scratch")
    build --pull-never --build-arg "BUILDER=$builder" "${volumes[@]}"
fi
say "built $image"
