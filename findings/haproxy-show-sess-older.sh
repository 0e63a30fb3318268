#!/usr/bin/env bash
# HAProxy 3.4.7: `show sess all older 1s` is refused, though `show sess help` lists both.
#
# Expected: `all`, then any of the options of the help: a large format of the streams that have lasted for a second.
# Seen: "Unsupported option 'older'". With `older` first, as in `show sess older 0s show-uri`, the format is the large
# one, and `show sess show-uri` has the short one.
#
# So who looks for old streams gives `older` first, and takes an unknown answer for an error.
# shellcheck source=findings/lib.sh
source "$(dirname "$0")/lib.sh"
haproxy_347
start <<'END'
frontend web
    bind unix@DIR/web
    http-request return status 200
END
expect "the help has the option" "$(cli "show sess help" | grep -c "older <age>")" "1"
expect "behind all" "$(cli "show sess all older 1s" | head -1)" "Unsupported option 'older', try 'help' for more info."
expect "in place of all" "$(cli "show sess older 0s show-uri" | grep -c "frontend=GLOBAL")" "1"
expect "without" "$(cli "show sess show-uri" | grep -c "fe=GLOBAL")" "1"
