#!/usr/bin/env bash
# Makes everything that a release has, in dist/: hack/release.sh v0.1.0. The same sources give the same files, wherever they are.
#
#   RELEASE_IMAGE      name of the operator's image, without a tag: what install.yaml, the chart and the archive have (gateway)
#   HAPROXY_IMG        what proxy pods run, with its digest
#   RELEASE_URL        where the archives of the plugin will be, in a directory named after the version: for krew
#   RELEASE_PLATFORMS  of the plugin, as "linux-amd64 darwin-arm64"
#   RELEASE_KEY        file with an ECDSA key that signs SHA256SUMS and the images, or what else openssl dgst -sign takes
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=hack/lib.sh
source hack/lib.sh

version=${1:-}
[[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] || fail "the version \"$version\" is not like v0.1.0: make release VERSION=v0.1.0"
grep -qxF "## $version" CHANGELOG.md || fail "CHANGELOG.md has no section \"## $version\": say what is new in it"
image=${RELEASE_IMAGE:-gateway}
haproxy_image=${HAPROXY_IMG:-}
[[ $haproxy_image =~ @sha256:[0-9a-f]{64}$ ]] ||
    fail "HAPROXY_IMG=$haproxy_image has no digest: make release HAPROXY_IMG=haproxy:3.4@\$(skopeo inspect --format '{{.Digest}}' docker://docker.io/library/haproxy:3.4)"
commit=$(git rev-parse HEAD)
[[ -z $(git status --porcelain) ]] || fail "there are changes that no commit has: a release is made of a commit"
url=${RELEASE_URL:-https://gateway.example.com/releases}
read -ra platforms <<<"${RELEASE_PLATFORMS:-linux-amd64 linux-arm64 darwin-amd64 darwin-arm64 windows-amd64 windows-arm64}"
dist=dist work=bin/release

need_go
rm -rf "$dist" "$work"
mkdir -p "$dist" "$work"
# The same sources make the same programs, whatever commit they are said to be.
export CGO_ENABLED=0 GOFLAGS=-buildvcs=false
flags=(-trimpath -ldflags="-s -w -X gateway/internal/version.version=$version")

# pack ARCHIVE DIR FILE...: a compressed archive in which nothing depends on when and where it was made.
pack() {
    local archive=$1 dir=$2
    shift 2
    tar -C "$dir" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -c "$@" | gzip -n -9 >"$archive"
}

say "Programs and their lists of modules (SBOM)"
for arch in amd64 arm64; do
    GOOS=linux GOARCH=$arch go build "${flags[@]}" -o "$work/$arch/" . ./cmd/gateway-agent ./cmd/gateway-keys ./cmd/gateway-key-server
    GOOS=linux GOARCH=$arch go build -C cmd/gateway-login "${flags[@]}" -o "../../$work/$arch/" .
    GOOS=linux GOARCH=$arch go build -C cmd/gateway-waf -tags=no_fs_access "${flags[@]}" -o "../../$work/$arch/" .
    GOOS=linux GOARCH=$arch go build -C test "${flags[@]}" -o "../$work/$arch/" ./echo
    hack/sbom.sh "$work/$arch/sbom" "$work/$arch/"{gateway,gateway-agent,gateway-keys,gateway-login,gateway-waf,gateway-key-server,echo}
done

say "Plugin"
for platform in "${platforms[@]}"; do
    dir=$work/$platform
    mkdir -p "$dir"
    GOOS=${platform%-*} GOARCH=${platform#*-} go build -C cmd/kubectl-gateway "${flags[@]}" -o "../../$dir/" .
    cp LICENSE "$dir/"
    pack "$dist/kubectl-gateway-$version-$platform.tar.gz" "$dir" .
    hack/sbom.sh "$work/sbom/$platform" "$dir"/kubectl-gateway*
    mv "$work/sbom/$platform"/*.cdx.json "$dist/kubectl-gateway-$version-$platform.cdx.json"
done

say "Images"
go build -C hack/cluster/image -trimpath -o ../../../bin/ .
files=() # of the operator's image
for program in gateway gateway-agent gateway-keys gateway-login gateway-waf gateway-key-server; do
    files+=("$work/{arch}/$program:/$program" "$work/{arch}/sbom/$program.cdx.json:/usr/share/sbom/$program.cdx.json")
done
digest=$(bin/image -oci amd64,arm64 -o "$dist/gateway-$version.oci.tar" -t "$image:$version" -user 65532 -entrypoint /gateway "${files[@]}")
echo_digest=$(bin/image -oci amd64,arm64 -o "$dist/gateway-echo-$version.oci.tar" -t "$image-echo:$version" -user 65532 -entrypoint /echo \
    "$work/{arch}/echo:/echo" "$work/{arch}/sbom/echo.cdx.json:/usr/share/sbom/echo.cdx.json")
for arch in amd64 arm64; do
    for program in gateway gateway-agent gateway-keys gateway-login gateway-waf gateway-key-server echo; do
        cp "$work/$arch/sbom/$program.cdx.json" "$dist/$program-$version-linux-$arch.cdx.json"
    done
done

say "install.yaml, kustomize base, Helm chart, krew manifest"
GOFLAGS='' go build -trimpath -buildvcs=false -o bin/make-release ./hack/release
parameters=(-version "$version" -image "$image" -image-digest "$digest" -haproxy-image "$haproxy_image" -url "$url" -o "$dist")
bin/make-release "${parameters[@]}"
pack "$dist/gateway-${version#v}.tgz" "$dist/chart" gateway
pack "$dist/gateway-$version-kustomize.tar.gz" "$dist/kustomize" .
mv "$dist/krew/gateway.yaml" "$dist/gateway.krew.yaml"
rm -r "$dist/chart" "$dist/kustomize" "$dist/krew"
cp artifacts/monitoring/dashboard.json "$dist/gateway-dashboard.json"
cp artifacts/gateway-api/gatewayclass.yaml "$dist/"

say "Provenance and signatures"
bin/make-release "${parameters[@]}" -platforms "${platforms[*]}" -echo-digest "$echo_digest" -provenance "$commit"
# sign FILE: prints its signature.
sign() { openssl dgst -sha256 -sign "$RELEASE_KEY" "$1"; }
# sign_image NAME DIGEST ARCHIVE: what cosign signs, and where it looks for the signature.
sign_image() {
    printf '{"critical":{"identity":{"docker-reference":"%s"},"image":{"docker-manifest-digest":"%s"},"type":"cosign container image signature"},"optional":null}' \
        "$1" "$2" >"$work/payload"
    sign "$work/payload" >"$work/signature"
    bin/image -o "$3" -t "$1:${2/:/-}.sig" -signature "$work/signature" "$work/payload"
}
if [[ -n ${RELEASE_KEY:-} ]]; then
    sign_image "$image" "$digest" "$dist/gateway-$version.sig.oci.tar"
    sign_image "$image-echo" "$echo_digest" "$dist/gateway-echo-$version.sig.oci.tar"
fi
(cd "$dist" && sha256sum -- * >SHA256SUMS)
[[ -z ${RELEASE_KEY:-} ]] || sign "$dist/SHA256SUMS" | base64 -w 0 >"$dist/SHA256SUMS.sig"
say "$(find "$dist" -type f | wc -l) files in $dist/, $(du -sh "$dist" | cut -f1)"
