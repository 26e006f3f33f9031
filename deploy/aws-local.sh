#!/usr/bin/env bash
# The whole service on this machine, as it runs on AWS: the tests' emulator (DynamoDB, Kinesis, SNS, SQS), the catalogue,
# the views service, three regions and a sidecar, each a process of its own; then the story of a record and of who may
# read it, told with curl. Catalogue and regions enforce grants, by tokens of an issuer of this script's own.
#
# usage: aws-local.sh [--exit]       --exit, or EXIT=1: end after the story; otherwise it stays up until Ctrl-C
#
#   NEARSIDE=PATH   the program; without it, `cargo build` makes one
#   PORTS=any       free ports instead of 8700 to 8752 and 4566
#
# Everything listens on loopback, and all that it starts ends with it. Configuration and logs lie in a directory of their
# own under $TMPDIR, which stays only if a process failed. It runs on bash 3.2, which macOS ships, and needs curl 7.20
# and openssl.
set -euo pipefail
if ! command -v curl >/dev/null 2>&1; then
    echo "aws-local: curl is missing: install it with your system's packages" >&2
    exit 1
fi
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/nearside-aws.XXXXXX")
regions=(eu-west-1 us-east-1 ap-southeast-2)
exits=${EXIT:-}
[ "${1:-}" != --exit ] || exits=1

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold=$'\e[1m' dim=$'\e[2m' plain=$'\e[0m'; else bold='' dim='' plain=''; fi
say() { printf '%s\n' "$*"; }
title() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }

# What runs, by name. Its process, and where it said that it serves, lie in files: bash 3.2 has no maps.
names=()
note() { printf '%s' "$3" >"$work/$1.$2"; }
process_of() { cat "$work/$1.process"; }
listen_of() { cat "$work/$1.listen"; }
admin_of() { cat "$work/$1.admin"; }

log_of() { printf '%s/%s.log' "$work" "$1"; }

fail() {
    printf '\naws-local: %s\n' "$1" >&2
    if [ -n "${2:-}" ] && [ -s "$(log_of "$2")" ]; then
        printf 'the last lines of %s:\n' "$(log_of "$2")" >&2
        tail -n 15 "$(log_of "$2")" | sed 's/^/  /' >&2
        kept=1
    fi
    exit 1
}

# Sidecar first: it removes its queues from an emulator that is still there.
clean_up() {
    local status=$? at name
    trap '' INT TERM HUP
    for ((at = ${#names[@]} - 1; at >= 0; at--)); do
        name=${names[at]}
        kill -TERM "$(process_of "$name")" 2>/dev/null || continue
        wait "$(process_of "$name")" 2>/dev/null || :
    done
    # The emulator ends when this end of its pipe closes.
    if [ -n "${emulator:-}" ]; then
        exec 9>&-
        wait "$emulator" 2>/dev/null || :
    fi
    [ -n "${kept:-}" ] || rm -rf "$work"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

port() { if [ "${PORTS:-}" = any ]; then echo 0; else echo "$1"; fi; }

# Waits until the command succeeds, for so many seconds.
within() {
    local until=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$until" ] || return 1
        sleep 0.05
    done
}

alive() { kill -0 "$1" 2>/dev/null; }
ask() { curl --silent --noproxy '*' --max-time 10 "$@"; }

issuer=https://issuer.local.invalid
regions_audience=https://regions.local.invalid
catalogue_audience=https://catalogue.local.invalid

# A token of this subject for this audience.
token() { "$root/deploy/local-issuer.sh" token "$work/issuer" "$issuer" "$1" "$2"; }

grants() {
    token admin "$catalogue_audience" >"$work/admin.token"
    NO_COLOR=1 "$program" grants "$@" --catalogue "http://$(listen_of catalogue)" --token-file "$work/admin.token" \
        9>&- >"$(log_of grants)" 2>&1 || fail "nearside grants $1 failed" grants
}

# Who each consumer is, and what it may do. The sidecar is jira's.
write_grants() {
    cat >"$work/grants.json" <<GRANTS
{"consumers": {
  "editor": {"who": [{"iss": "$issuer", "sub": "editor"}], "write": ["tenant", "shard"]},
  "jira": {"who": [{"iss": "$issuer", "sub": "jira"}], "views": ["limits"]},
  "wiki": {"who": [{"iss": "$issuer", "sub": "wiki"}], "views": ["names"]}
}}
GRANTS
}

start_emulator() {
    local venv at=4566
    venv=$("$root/tests/emulator/setup.sh") || fail "the emulator could not be set up; what was said is above"
    if [ "${PORTS:-}" = any ]; then
        at=$("$venv/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    elif (exec 3<>"/dev/tcp/127.0.0.1/$at") 2>/dev/null; then
        fail "port $at is in use: stop what is there, or run with PORTS=any"
    fi
    mkfifo "$work/emulator.in"
    TMPDIR=$work "$root/tests/emulator/run.sh" "$venv" "$at" <"$work/emulator.in" >"$(log_of emulator)" 2>&1 &
    emulator=$!
    exec 9>"$work/emulator.in"
    aws=http://localhost:$at
    answers() { ask --output /dev/null --fail "$aws/_localemu/health" || ! alive "$emulator"; }
    within 60 answers && alive "$emulator" || fail "the emulator does not answer" emulator
    say "emulator        $aws"
}

# Runs the program with these arguments, and waits until it says where it serves.
start() {
    local name=$1 said
    shift
    : >"$(log_of "$name")"
    NO_COLOR=1 "$program" "$@" 9>&- </dev/null >>"$(log_of "$name")" 2>&1 &
    note "$name" process $!
    names+=("$name")
    serves() { said=$(grep -m 1 ' serving ' "$(log_of "$name")") || ! alive "$(process_of "$name")"; }
    within 30 serves && [ -n "$said" ] || fail "$name did not start" "$name"
    field() { printf '%s\n' "$said" | sed -n "s/.* $1=\"\{0,1\}\([0-9.:]*\).*/\1/p"; }
    note "$name" listen "$(field listen)"
    [ -n "$(listen_of "$name")" ] || note "$name" listen "$(field tcp)"
    note "$name" admin "$(field admin)"
}

# Waits until its page says that it is ready and lacks nothing.
ready() {
    local page callers
    is_ready() {
        page=$(ask --fail "http://$(admin_of "$1")/readyz") && [[ $page == *'"reasons":[]'* ]] ||
            ! alive "$(process_of "$1")"
    }
    within 60 is_ready "$1" && alive "$(process_of "$1")" || fail "$1 does not become ready: ${page:-no answer}" "$1"
    callers=$(listen_of "$1")
    printf '%-15s pages: http://%s/   %s\n' "$1" "$(admin_of "$1")" "${callers:+callers: http://$callers}"
}

write_service_file() {
    local at region
    cat >"$work/views.toml" <<VIEWS
[[view]]
name = "limits"
definition = 1
from = "tenant"
needs = { shard = "shard:{/shard}" }
[view.fields]
users = "/users"
host = "shard:/host"
[[view]]
name = "names"
definition = 1
from = "tenant"
[view.fields]
name = "/name"
VIEWS
    cat >"$work/service.toml" <<SERVICE
[engine]
kind = "aws"
region = "${regions[0]}"
endpoint_url = "$aws"
[catalogue]
listen = "127.0.0.1:$(port 8740)"
admin = "127.0.0.1:$(port 8741)"
[[catalogue.type]]
name = "tenant"
[[catalogue.type]]
name = "shard"
[views]
file = "$work/views.toml"
admin = "127.0.0.1:$(port 8743)"
[access]
mode = "enforce"
catalogue_audience = "$catalogue_audience"
region_audience = "$regions_audience"
[[access.issuer]]
iss = "$issuer"
keys = "$work/issuer/keys.json"
[[access.admin]]
iss = "$issuer"
sub = "admin"
[drain]
linger = "0s"
SERVICE
    for at in "${!regions[@]}"; do
        region=${regions[at]}
        cat >>"$work/service.toml" <<REGION
[[region]]
name = "$region"
topic = "arn:aws:sns:$region:000000000000:context-changes"
listen = "127.0.0.1:$(port $((8744 + 2 * at)))"
admin = "127.0.0.1:$(port $((8745 + 2 * at)))"
REGION
    done
}

write_sidecar_file() {
    local region
    cat >"$work/nearside.toml" <<SIDECAR
[service]
name = "contexts"
[[service.route]]
path = "/v1/contexts/{key}/limits"
records = ["limits:{key}"]
identity = "sidecar"
[service.route.credentials]
kind = "jwt"
key_file = "$work/issuer/key.pem"
kid = "local"
iss = "$issuer"
sub = "jira"
audience = "$regions_audience"
[listen]
tcp = "127.0.0.1:$(port 8700)"
[admin]
listen = "127.0.0.1:$(port 8701)"
[announcements]
endpoint_url = "$aws"
insecure_sns_signer = "$aws"
[drain]
linger = "0s"
SIDECAR
    for region in "${regions[@]}"; do
        cat >>"$work/nearside.toml" <<REGION
[[service.region]]
name = "$region"
url = "http://$(listen_of "$region")"
topic = "arn:aws:sns:$region:000000000000:context-changes"
REGION
    done
}

now() { if [ -n "${EPOCHREALTIME:-}" ]; then echo $((${EPOCHREALTIME//[.,]/} / 1000)); else echo $((SECONDS * 1000)); fi; }

# As one would type it, but for tokens.
typed() {
    if [[ $1 == 'authorization: Bearer '* ]]; then
        printf " 'authorization: Bearer ...'"
    elif [[ $1 == *[!A-Za-z0-9:/._-]* ]]; then
        printf " '%s'" "$1"
    else
        printf ' %s' "$1"
    fi
}

# Shows a command, runs it, and shows the lines of its answer that matter.
shown() {
    printf '%s$ curl%s%s\n' "$bold" "$(for word in "$@"; do typed "$word"; done)" "$plain"
    ask --include "$@" | tr -d '\r' | awk -v dim="$dim" -v plain="$plain" '
        NR == 1 { print dim "  " $0 plain; next }
        body { print "  " $0; next }
        $0 == "" { body = 1; next }
        tolower($0) ~ /^(x-record-version|cache-status|age):/ { print dim "  " $0 plain }'
}

put() {
    written=$(now)
    shown --request PUT --header "authorization: Bearer $editor" --header 'content-type: application/json' --data "$2" "$records/$1"
}

# Reads until the status is this and the version another than before, then shows it.
read_until() {
    local head changed
    changed() {
        # Status and version.
        head=$(ask --include "$view" | tr -d '\r' | awk 'NR == 1 { status = $2 } $0 == "" { body = 1 }
            !body && tolower($1) == "x-record-version:" { version = $2 } END { print status " " version }') || return 1
        [[ $head == "$1 "?* && $head != *" ${version:-none}" ]]
    }
    within 30 changed "$1" || fail "no change was seen at $view: ${head:-no answer}" sidecar
    version=${head#* }
    say "${dim}  $(($(now) - written)) ms after the write, the sidecar's callers see it:${plain}"
    shown "$view"
}

# Reads until the sidecar answers with this status, then shows it.
status_until() {
    local last
    answers_so() { last=$(ask --output /dev/null --write-out '%{http_code}' "$view") && [ "$last" = "$1" ]; }
    within 30 answers_so "$1" || fail "no $1 was seen at $view: ${last:-no answer}" sidecar
    say "${dim}  $(($(now) - written)) ms after that, the sidecar's callers see it:${plain}"
    shown "$view"
}

tell_of_access() {
    local region wiki
    region="http://$(listen_of "${regions[0]}")/v1/contexts/acme/limits"
    wiki=$(token wiki "$regions_audience")
    title "Applications need no token: their sidecar signs its own. Straight at a region, nobody is answered without one,"
    shown "$region"
    title "and nobody with a token but without a grant: the consumer 'wiki' has the view 'names' alone."
    shown --header "authorization: Bearer $wiki" "$region"
    title "All grants of the sidecar's consumer are taken away: what the sidecar has stored ends with them."
    say "${bold}\$ nearside grants stop jira --token-file admin.token${plain}"
    written=$(now)
    grants stop jira
    status_until 403
    title "They are given back."
    say "${bold}\$ nearside grants resume jira --token-file admin.token${plain}"
    written=$(now)
    grants resume jira
    status_until 200
}

tell_the_story() {
    local records view editor
    editor=$(token editor "$catalogue_audience")
    records="http://$(listen_of catalogue)/v1/records" view="http://$(listen_of sidecar)/v1/contexts/acme/limits"
    local version='' written
    title "A tenant and its shard are written to the catalogue, the one place where records are written."
    put shard/eu-7 '{"host":"db-7.internal"}'
    put tenant/acme '{"users":25,"shard":"eu-7"}'
    title "The view 'limits' joins both. Applications ask their sidecar, which asks the nearest region once."
    read_until 200
    shown "$view"
    title "The tenant changes. Every region announces it, and the sidecar gives out the old version no more."
    put tenant/acme '{"users":500,"shard":"eu-7"}'
    read_until 200
    title "The shard moves. So does every view that it is part of."
    put shard/eu-7 '{"host":"db-9.internal"}'
    read_until 200
    tell_of_access
    title "The tenant is deleted. That is a version too: nothing older comes back."
    written=$(now)
    shown --request DELETE --header "authorization: Bearer $editor" "$records/tenant/acme"
    read_until 404
}

program=${NEARSIDE:-}
if [ -z "$program" ]; then
    cargo build --locked --manifest-path "$root/Cargo.toml" --bin nearside
    program=${CARGO_TARGET_DIR:-$root/target}/debug/nearside
fi

title "Starting"
start_emulator
"$root/deploy/local-issuer.sh" keys "$work/issuer" || fail "the issuer's keys could not be made; what was said is above"
write_service_file
write_grants
NO_COLOR=1 "$program" setup --config "$work/service.toml" >"$(log_of setup)" 2>&1 9>&- || fail "nearside setup failed" setup
say "nearside setup  $(grep -c ': created$' "$(log_of setup)") tables, streams and topics"
start catalogue catalogue --config "$work/service.toml"
grants apply "$work/grants.json"
start views views --config "$work/service.toml"
for region in "${regions[@]}"; do start "$region" region --config "$work/service.toml" --name "$region"; done
write_sidecar_file
start sidecar run --config "$work/nearside.toml"
for name in "${names[@]}"; do ready "$name"; done
say "configuration   $work/service.toml, $work/nearside.toml"

tell_the_story

title "Whether catalogue, views and regions agree: $program verify --config $work/service.toml"
if [ -n "$exits" ]; then exit 0; fi
say "It stays up. Ctrl-C ends it and all that it started."
while :; do
    for name in "${names[@]}"; do alive "$(process_of "$name")" || fail "$name has ended" "$name"; done
    sleep 1
done
