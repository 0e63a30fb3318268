#!/usr/bin/env bash
# Runs unit tests of what reads and writes bytes as another CPU does, arm64, by qemu's user mode. HAProxy is this machine's.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=hack/lib.sh
source hack/lib.sh

packages=(certificates compact few haproxy/{filters,ir,plan,render,runtime} journal jwks keeper keyset keystream login passwords
    peers regex requestmetrics ring routing tracing tree turns waf)

need_go
need_haproxy
need qemu-aarch64 qemu-user
export GOARCH=arm64 CGO_ENABLED=0
go test -vet=off -ldflags='-s -w' -count=1 -timeout=20m -exec=qemu-aarch64 "${packages[@]/#/./internal/}"
(cd cmd/gateway-waf && go test -vet=off -ldflags='-s -w' -count=1 -timeout=20m -exec=qemu-aarch64 ./internal/{server,sets})
