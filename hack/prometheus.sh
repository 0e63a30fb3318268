#!/usr/bin/env bash
# Prints a directory with prometheus and promtool. If this machine has none, they come from Debian's archive into the cache: nothing is
# installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=hack/lib.sh
source hack/lib.sh

dir=$(cached prometheus)/usr/bin
for promtool in "$(command -v promtool)" "$dir/promtool"; do
    if [[ -x $promtool && -x $(dirname "$promtool")/prometheus ]]; then
        dirname "$promtool"
        exit
    fi
done
suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
fetch_debian "$(cached prometheus)" prometheus "${suite:-stable}" stable || fail "there is no Prometheus on the PATH, and none in a Debian archive: install it"
echo "$dir"
