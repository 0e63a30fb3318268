package proxyconfig

import "time"

const (
	// UnderWayPath is where the agent answers with an UnderWay, on the same port as Path, and to the same requests.
	UnderWayPath = "/requests"
	// ParameterOlder of it is the age in seconds from which a request counts.
	ParameterOlder = "older"
	// MaxUnderWay bounds the requests of an answer: the oldest ones count.
	MaxUnderWay = 1000
)

// UnderWay are requests that have no full answer yet, the oldest first.
type UnderWay struct {
	Requests []Request `json:"requests"`
	// More is how many younger ones there are.
	More int `json:"more,omitempty"`
}

// Request is a request that has no full answer yet.
type Request struct {
	Started time.Time `json:"started"`
	Client  string    `json:"client"`
	// Port is the listener's.
	Port   int32  `json:"port"`
	Method string `json:"method"`
	// Host is "" of a request over HTTP/1.1: HAProxy does not show it. Path has no query.
	Host string `json:"host,omitempty"`
	Path string `json:"path"`
	// Backend is the section of haproxy.cfg, and Server the endpoint; "" if none was chosen yet.
	Backend  string   `json:"backend,omitempty"`
	Server   string   `json:"server,omitempty"`
	WaitsFor WaitsFor `json:"waitsFor"`
	// IsOld reports whether a worker has it that takes no new connections any more.
	IsOld bool `json:"oldWorker,omitempty"`
}

// WaitsFor is what a request waits for.
type WaitsFor string

const (
	// ForBody is for the rest of the body, by the client.
	ForBody WaitsFor = "body"
	// ForQuestion is for an answer about the request: of an ExternalAuth, a login, a WAF.
	ForQuestion WaitsFor = "question"
	// ForQueue is for a place at an endpoint.
	ForQueue WaitsFor = "queue"
	// ForConnection is for a connection to an endpoint, or for an endpoint.
	ForConnection WaitsFor = "connection"
	// ForEndpoint is for the endpoint to answer.
	ForEndpoint WaitsFor = "endpoint"
	// ForResponse is for the rest of the response.
	ForResponse WaitsFor = "response"
	// ForTunnel is for the end of what is no HTTP any more, such as a WebSocket.
	ForTunnel WaitsFor = "tunnel"
)
