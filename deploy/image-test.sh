#!/usr/bin/env bash
# Runs what deploy/image.sh built: unpacked in a bare chroot (no /proc, no /dev, no shell), as the image's own user,
# against a region on loopback. It must serve a miss and a hit, be healthy, and end with 0 on SIGTERM.
set -euo pipefail
image=localhost/nearside:latest

say() { printf 'image-test: %s\n' "$*"; }
fail() { say "FAILED: $*"; [ ! -f "$work/log" ] || tail -n 20 "$work/log"; exit 1; }

if ! command -v buildah >/dev/null || ! buildah inspect --type image "$image" >/dev/null 2>&1; then
    say "there is no $image to test; deploy/image.sh says why"
    exit 0
fi

work=$(mktemp -d)
root=$work/root
pids=()
clean_up() {
    local pid
    for pid in "${pids[@]}"; do
        kill -KILL "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    rm -rf "$work"
}
trap clean_up EXIT

unpack() {
    local from
    from=$(buildah from --pull-never "$image")
    mkdir "$root"
    cp -a "$(buildah mount "$from")/." "$root/"
    buildah rm "$from" >/dev/null
    # What a container runtime mounts.
    install -m 644 /etc/resolv.conf /etc/hosts "$root/etc/"
}

# The image's settings are read from it, so that this tests what is shipped.
setting() { buildah inspect --type image --format "$1" "$image"; }

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# Status, Cache-Status and body of a GET, on a line each.
get() {
    python3 - "$1" <<'PYTHON'
import sys, urllib.request
reply = urllib.request.urlopen(sys.argv[1], timeout=5)
print(reply.status, reply.headers.get("cache-status"), reply.read().decode(), sep="\n")
PYTHON
}

region() {
    python3 - "$1" <<'PYTHON'
import http.server, sys
class Region(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = b'{"from":"the region"}'
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.send_header("x-record-version", "1")
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Region).serve_forever()
PYTHON
}

unpack
user=$(setting '{{.OCIv1.Config.User}}')
[ "${user%%:*}" != 0 ] && [ -n "$user" ] || fail "the image runs as root"
[ "$(find "$root" -type f -perm -u=x)" = "$root/nearside" ] || fail "something beside nearside can be executed"
case "$(setting '{{.Docker.Config.Healthcheck}}')" in
    *health*) ;;
    *) fail "the image has no HEALTHCHECK" ;;
esac

to=$(free_port) tcp=$(free_port) admin=$(free_port)
region "$to" &
pids+=($!)
tries=0
until python3 -c "import socket; socket.create_connection(('127.0.0.1', $to), 1)" 2>/dev/null; do
    tries=$((tries + 1))
    [ "$tries" -lt 100 ] || fail "the region did not begin to listen"
    sleep 0.1
done
env=(NEARSIDE__SERVICE__REGION__LOCAL__URL="http://127.0.0.1:$to"
    NEARSIDE__SERVICE__ROUTE__0__PATH='/v1/contexts/{key}' NEARSIDE__SERVICE__ROUTE__0__RECORDS='context:{key}'
    NEARSIDE__LISTEN__TCP="127.0.0.1:$tcp" NEARSIDE__ADMIN__LISTEN="127.0.0.1:$admin"
    NEARSIDE__ANNOUNCEMENTS__TRANSPORT=off NEARSIDE__DRAIN__LINGER=200ms)
inside() { exec env -i PATH="$PATH" "${env[@]}" chroot --userspec="$user" "$root" /nearside "$@" --config /etc/nearside/nearside.toml; }

(inside run >"$work/log" 2>&1) &
sidecar=$!
pids+=("$sidecar")
tries=0
until (inside health >/dev/null 2>&1); do
    tries=$((tries + 1))
    [ "$tries" -lt 100 ] || fail "it did not become healthy"
    kill -0 "$sidecar" 2>/dev/null || fail "it ended by itself"
    sleep 0.1
done
say "healthy after $tries tries, as $user"

mapfile -t miss < <(get "http://127.0.0.1:$tcp/v1/contexts/acme")
mapfile -t hit < <(get "http://127.0.0.1:$tcp/v1/contexts/acme")
[ "${miss[0]:-}" = 200 ] && [ "${miss[2]:-}" = '{"from":"the region"}' ] || fail "a miss gave ${miss[*]:-nothing}"
case "${hit[1]:-}" in
    *hit*) say "served a miss (${miss[1]}) and a hit (${hit[1]})" ;;
    *) fail "the second request was no hit: ${hit[*]:-nothing}" ;;
esac

kill -TERM "$sidecar"
ended=0
wait "$sidecar" || ended=$?
[ "$ended" = 0 ] || fail "SIGTERM ended it with $ended"
! (inside health >/dev/null 2>&1) || fail "it is healthy although it has ended"
say "passed: $(du -h "$root/nearside" | cut -f1) of binary, ended with 0 on SIGTERM"
