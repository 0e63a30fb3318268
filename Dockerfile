# The operator and what it starts beside HAProxy, in one image; or, with --target echo, the backend of the example. hack/images.sh puts the same
# programs and lists into images without docker.
FROM golang:1.27 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ENV CGO_ENABLED=0 GOFLAGS=-buildvcs=false
RUN go build -trimpath -ldflags='-s -w' -o bin/ . ./cmd/gateway-agent ./cmd/gateway-keys ./cmd/gateway-key-server
RUN go build -C cmd/gateway-login -trimpath -ldflags='-s -w' -o ../../bin/ .
RUN go build -C cmd/gateway-waf -tags=no_fs_access -trimpath -ldflags='-s -w' -o ../../bin/ .
RUN go build -C test -trimpath -ldflags='-s -w' -o ../bin/ ./echo
RUN hack/sbom.sh bin/sbom bin/gateway bin/gateway-agent bin/gateway-keys bin/gateway-login bin/gateway-waf bin/gateway-key-server bin/echo

FROM scratch AS echo
COPY --from=build /src/bin/echo /echo
COPY --from=build /src/bin/sbom/echo.cdx.json /usr/share/sbom/
USER 65532
ENTRYPOINT ["/echo"]

FROM scratch
COPY --from=build /src/bin/gateway /src/bin/gateway-agent /src/bin/gateway-keys /src/bin/gateway-login /src/bin/gateway-waf /src//src/bin/gateway-key-server /
COPY --from=build /src/bin/sbom/gateway.cdx.json /src/bin/sbom/gateway-agent.cdx.json /src/bin/sbom/gateway-keys.cdx.json /src/bin/sbom/gateway-login.cdx.json /src/bin/sbom/gateway-waf.cdx.json /src/bin/sbom/gateway-key-server.cdx.json /usr/share/sbom/
USER 65532
ENTRYPOINT ["/gateway"]
