#!/usr/bin/env bash
# An issuer of tokens for trying access control on one machine: a key and its JWK Set in a directory, and tokens of any
# subject. Everybody who can read the directory can be anybody: for production, use your platform's issuer (docs/access.md).
#
# usage: local-issuer.sh keys DIRECTORY                                       makes key.pem and keys.json, once
#        local-issuer.sh token DIRECTORY ISS SUBJECT AUDIENCE [SECONDS]       prints a token, for ten minutes
#
# It runs on bash 3.2 and needs openssl.
set -euo pipefail
fail() {
    echo "local-issuer: $1" >&2
    exit 2
}
command -v openssl >/dev/null 2>&1 || fail "openssl is missing: install it with your system's packages"

encoded() { openssl base64 -A | tr '+/' '-_' | tr -d '='; }

make_keys() {
    local hex
    mkdir -p "$1"
    [ ! -e "$1/key.pem" ] || return 0
    (umask 077 && openssl genrsa -out "$1/key.pem" 2048 2>/dev/null) || fail "no key could be made in $1"
    hex=$(openssl rsa -in "$1/key.pem" -noout -modulus 2>/dev/null | cut -d= -f2)
    printf '{"keys": [{"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "local", "e": "AQAB", "n": "%s"}]}\n' \
        "$(printf '%b' "$(printf '%s' "$hex" | sed 's/../\\x&/g')" | encoded)" >"$1/keys.json"
}

token() {
    local now parts
    [ -r "$1/key.pem" ] || fail "there is no key in $1: run $0 keys $1 first"
    now=$(date +%s)
    parts=$(printf '{"alg":"RS256","typ":"JWT","kid":"local"}' | encoded).$(
        printf '{"iss":"%s","sub":"%s","aud":"%s","iat":%s,"exp":%s}' "$2" "$3" "$4" "$now" $((now + ${5:-600})) | encoded
    )
    printf '%s.%s\n' "$parts" "$(printf '%s' "$parts" | openssl dgst -sha256 -sign "$1/key.pem" -binary | encoded)"
}

case "${1:-}/$#" in
    keys/2) make_keys "$2" ;;
    token/5 | token/6) token "$2" "$3" "$4" "$5" "${6:-600}" ;;
    *) sed -n '5,6s/^# //p' "$0" >&2 && exit 2 ;;
esac
