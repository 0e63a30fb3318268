#!/usr/bin/env bash
# HAProxy 3.4.7: lines that a slow syslog server loses over UDP are not in DroppedLogs.
#
# Expected by most: DroppedLogs of `show info` counts the lines that did not arrive.
# Seen: a server that reads too late has lost most of 600 lines, and DroppedLogs is 0. The kernel drops them behind
# HAProxy's back.
#
# So what must be complete goes over a stream.
# shellcheck source=findings/lib.sh
source "$(dirname "$0")/lib.sh"
haproxy_347
python3 - "$dir" <<'END' &
import os, socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
s.bind(("127.0.0.1", 0))
with open(sys.argv[1] + "/port.new", "w") as f:
    f.write(str(s.getsockname()[1]))
os.rename(sys.argv[1] + "/port.new", sys.argv[1] + "/port")
while not os.path.exists(sys.argv[1] + "/sent"):
    time.sleep(0.02)
s.settimeout(0.5)
lines = 0
try:
    while s.recv(65536):
        lines += 1
except TimeoutError:
    pass
with open(sys.argv[1] + "/lines.new", "w") as f:
    f.write(str(lines))
os.rename(sys.argv[1] + "/lines.new", sys.argv[1] + "/lines")
END
pids+=($!)
until [[ -f $dir/port ]]; do sleep 0.02; done
start <<END
frontend web
    bind unix@DIR/web
    log 127.0.0.1:$(cat "$dir/port") local0
    option httplog
    http-request return status 200
END
get web "http://a/[1-600]" -o /dev/null
touch "$dir/sent"
until [[ -f $dir/lines ]]; do sleep 0.02; done
expect "less than half of the lines arrived" "$(($(cat "$dir/lines") < 300))" "1"
expect "the counter" "$(cli "show info" | grep '^DroppedLogs')" "DroppedLogs: 0"
