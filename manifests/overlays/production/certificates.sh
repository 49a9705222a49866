#!/bin/sh
# Makes the two Secrets of the verb port: rm-brain-tls (the server's pair, and the authority that signs its clients) and
# rm-scheduler-tls (kube-scheduler's pair, and the authority that signs the server). Run it again to renew: brain reads
# changed files by itself, kube-scheduler wants a restart (kubectl -n NAMESPACE rollout restart deployment rm-brain).
# The authority is made anew each time and its key is thrown away, so nobody can sign a third certificate.
#
#   ./certificates.sh [--namespace NS] [--print]
#                                     days of validity: DAYS=365 (default); another kubectl: KUBECTL="kubectl --context x"
#   --namespace NS                    where the overlay puts our parts (default rm-system); any namePrefix is as good
#   --print                           prints the two Secrets instead of applying them
set -eu
namespace=rm-system
print=
while [ $# -gt 0 ]; do
    case $1 in
    --namespace) namespace=${2:?"--namespace wants a name"} && shift ;;
    --namespace=*) namespace=${1#*=} ;;
    --print) print=yes ;;
    *) echo "certificates.sh: there is no option '$1' (accepted: --namespace NS, --print)" >&2 && exit 2 ;;
    esac
    shift
done
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
    $kubectl create secret generic "$1" -n "$namespace" --dry-run=client -o yaml \
        --from-file=tls.crt="$2.crt" --from-file=tls.key="$2.key" --from-file=ca.crt=ca.crt
}

key ca
openssl req -x509 -new -key ca.key -subj "/CN=rm-emulator verbs" -days "$days" -sha256 -out ca.crt \
    -addext basicConstraints=critical,CA:TRUE,pathlen:0 -addext keyUsage=critical,keyCertSign
# kube-scheduler expects this name (tlsConfig.serverName), whatever the Service and its namespace are called.
pair brain rm-brain serverAuth DNS:rm-brain,IP:127.0.0.1
pair scheduler rm-scheduler clientAuth DNS:rm-scheduler

{
    secret rm-brain-tls brain
    echo ---
    secret rm-scheduler-tls scheduler
} >secrets.yaml
if [ -n "$print" ]; then
    cat secrets.yaml
else
    $kubectl apply --server-side --force-conflicts -f secrets.yaml
fi
