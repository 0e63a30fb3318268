#!/usr/bin/env bash
# HAProxy 3.4.7: ipmask takes more IPv6 addresses for IPv4 than the mapped ones.
#
# Expected by most: ipmask(32,64) keeps IPv4 addresses, and cuts IPv6 addresses to 64 bits.
# Seen: it also makes IPv4 addresses of mapped ones (::ffff:192.0.2.1), of 6to4 ones (2002:c000:201::1) and of the old
# compatible form (::192.0.2.1). A client of 6to4 counts as the IPv4 client whose tunnel it is.
# shellcheck source=findings/lib.sh
source "$(dirname "$0")/lib.sh"
haproxy_347
start <<'END'
frontend web
    bind unix@DIR/web
    http-request return status 200 content-type text/plain lf-string %[req.hdr_ip(client),ipmask(32,64)]
END
masked() { get web http://a/ -H "Client: $1"; }
expect "a usual IPv6 address" "$(masked 2001:db8::1:2)" "2001:db8::"
expect "a mapped address" "$(masked ::ffff:192.0.2.1)" "192.0.2.1"
expect "a 6to4 address" "$(masked 2002:c000:201::1)" "192.0.2.1"
expect "a compatible address" "$(masked ::192.0.2.1)" "192.0.2.1"
