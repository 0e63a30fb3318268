# The operator and the agent, in one image; or, with --target echo, the backend of the example.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o /out/ . ./cmd/gateway-agent
RUN cd test && CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o /out/echo ./echo

FROM scratch AS echo
COPY --from=build /out/echo /echo
USER 65532
ENTRYPOINT ["/echo"]

FROM scratch
COPY --from=build /out/gateway /out/gateway-agent /
USER 65532
ENTRYPOINT ["/gateway"]
