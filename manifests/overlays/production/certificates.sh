#!/bin/sh
# Makes the two Secrets of the verb port: rm-brain-tls (the server's pair, and the authority that signs its clients) and
# rm-scheduler-tls (kube-scheduler's pair, and the authority that signs the server). Run it again to renew: brain reads
# changed files by itself, kube-scheduler wants a restart (kubectl -n rm-system rollout restart deployment rm-brain).
# The authority is made anew each time and its key is thrown away, so nobody can sign a third certificate.
#
#   ./certificates.sh                 days of validity: DAYS=365 (default); another kubectl: KUBECTL="kubectl --context x"
#   ./certificates.sh --print         prints the two Secrets instead of applying them
set -eu
umask 077
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
days=${DAYS:-365}
kubectl=${KUBECTL:-kubectl}
cd "$folder"

key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"; }

# pair NAME COMMON-NAME EXTENDED-KEY-USAGE ALTERNATIVE-NAMES
pair() {
    key "$1"
    openssl req -new -key "$1.key" -subj "/CN=$2" -out "$1.csr"
    printf 'basicConstraints=CA:FALSE\nkeyUsage=digitalSignature\nextendedKeyUsage=%s\nsubjectAltName=%s\n' "$3" "$4" >"$1.ext"
    openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days "$days" -sha256 \
        -extfile "$1.ext" -out "$1.crt" 2>/dev/null
}

secret() {
    $kubectl create secret generic "$1" -n rm-system --dry-run=client -o yaml \
        --from-file=tls.crt="$2.crt" --from-file=tls.key="$2.key" --from-file=ca.crt=ca.crt
}

key ca
openssl req -x509 -new -key ca.key -subj "/CN=rm-emulator verbs" -days "$days" -sha256 -out ca.crt \
    -addext basicConstraints=critical,CA:TRUE,pathlen:0 -addext keyUsage=critical,keyCertSign
pair brain rm-brain serverAuth DNS:rm-brain.rm-system.svc,DNS:rm-brain.rm-system.svc.cluster.local,IP:127.0.0.1
pair scheduler rm-scheduler clientAuth DNS:rm-scheduler

{
    secret rm-brain-tls brain
    echo ---
    secret rm-scheduler-tls scheduler
} >secrets.yaml
if [ "${1:-}" = --print ]; then
    cat secrets.yaml
else
    $kubectl apply --server-side --force-conflicts -f secrets.yaml
fi
