#!/bin/sh
# Makes the certificates of the TLS tests anew: an authority, nodes 1 and 2, and a stranger's
# authority with a node 1 of its own. Each names its node, and loopback. They guard nothing.
set -eu
cd "$(dirname "$0")"
authority() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 36500 \
        -subj "/CN=$1" -keyout "$1.key" -out "$1.pem" \
        -addext "keyUsage=critical,keyCertSign"
}
node() { # authority, file, DNS name
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$2" \
        -keyout "$2.key" -out "$2.csr"
    printf 'subjectAltName=DNS:%s,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n' "$3" > "$2.ext"
    openssl x509 -req -in "$2.csr" -CA "$1.pem" -CAkey "$1.key" -days 36500 -out "$2.pem" \
        -extfile "$2.ext"
    rm "$2.csr" "$2.ext"
}
authority authority
authority stranger
node authority node1 1.raft.test
node authority node2 2.raft.test
node stranger stranger1 1.raft.test
rm -f authority.key stranger.key stranger.pem ./*.srl
