#!/usr/bin/env bash
# HAProxy 3.4.7: where it refuses to commit a certificate because another connection commands certificates, it may
# refuse all commands on certificates from then on, until it is reloaded.
#
# Expected by most: what is refused with "Operations on certificates are currently locked!" can be sent again.
# Seen: after one or a few times that "commit ssl cert" is refused, each command is, although no connection is open.
#
# Our programs take turns (Exclusively of internal/haproxy/runtime).
# shellcheck source=findings/lib.sh
source "$(dirname "$0")/lib.sh"
haproxy_347
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=one" \
    -keyout "$dir/key" -out "$dir/crt" 2>/dev/null
cat "$dir/crt" "$dir/key" >"$dir/one.pem"
echo "$dir/one.pem" >"$dir/list"
start <<'END'
frontend web
    bind unix@DIR/web ssl crt-list DIR/list
    http-request return status 200
END
# send renews the certificate by one connection after the other, and at the same time by others.
send() {
    python3 - "$dir/cli" "$dir/one.pem" <<'END'
import socket, sys, threading
path, file = sys.argv[1:]
pem = open(file).read()
refused = set()

def send(command):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path)
        s.sendall(command.encode())
        return b"".join(iter(lambda: s.recv(65536), b"")).decode()

def repeat(commands):
    for _ in range(1000):
        for command in commands:
            if "commit" not in refused and "currently locked" in send(command):
                refused.add(command.split()[0])

renew = ["set ssl cert %s <<\n%s\n" % (file, pem), "commit ssl cert %s\n" % file]
threads = [threading.Thread(target=repeat, args=(c,)) for c in (renew, renew[:1])]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(" ".join(sorted(refused)))
END
}
after() { cli "del ssl cert none" | grep -c "currently locked" || true; }
expect "refusals before" "$(after)" "0"
for _ in {1..20}; do
    refused=$(send)
    sleep 0.5
    [[ $(after) == 0 ]] || break
done
expect "a refused commit" "$(grep -o commit <<<"$refused")" "commit"
expect "refusals after that" "$(after)" "1"
