package logs

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// line is a log line of a proxy pod.
type line struct {
	pod string
	// time is when it was logged, as kubelet has it; of a line without, when the one before was.
	time time.Time
	text string
	// access is what the text says if it is of the access log, or nil: HAProxy also tells what happens to itself.
	access *Access
}

// Access is a line of the access log, see the log-formats in internal/haproxy/render. Connections to a TCP or TLS
// listener have no method, path, status and rule.
type Access struct {
	Client    string `json:"client"`
	Port      string `json:"port"`
	Method    string `json:"method"`
	Host      string `json:"host"`
	Path      string `json:"path"`
	UserAgent string `json:"userAgent"`
	Status    int    `json:"status"`
	BytesOut  int64  `json:"bytesOut"`
	// The times are in milliseconds, -1 for what the request did not get to.
	MSRequest  int64  `json:"msRequest"`
	MSQueue    int64  `json:"msQueue"`
	MSConnect  int64  `json:"msConnect"`
	MSResponse int64  `json:"msResponse"`
	MSTotal    int64  `json:"msTotal"`
	Retries    string `json:"retries"`
	Route      string `json:"route"`
	Rule       string `json:"rule"`
	Backend    string `json:"backend"`
	Server     string `json:"server"`
	// Filter is the type of the filter that stopped the request.
	Filter string `json:"filter"`
	// Shadow are the filters in shadow that let the request through, with the statuses that they would have answered.
	Shadow map[string]int `json:"shadow"`
	// WAF is what a WAF has found, and Headers are those that the Gateway has the log have, by their names in lower case.
	WAF         json.RawMessage   `json:"waf"`
	Headers     map[string]string `json:"requestHeaders"`
	Termination string            `json:"termination"`
	// Error and TLSError say why there is no request, as of a client that fails to shake hands.
	Error    string `json:"error"`
	TLSError string `json:"tlsError"`
}

// parse reads a line with a time before it, as kubelet adds it.
func parse(pod, stamped string, before time.Time) line {
	stamp, text, _ := strings.Cut(stamped, " ")
	at, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil {
		return line{pod: pod, time: before, text: stamped} // an error of kubelet's
	}
	l := line{pod: pod, time: at, text: text}
	if found, ok := ParseAccess(text); ok {
		l.access = &found
	}
	return l
}

// ParseAccess reads a line of HAProxy's standard output. It returns false if it is not of the access log.
func ParseAccess(text string) (Access, bool) {
	var found Access
	ok := strings.HasPrefix(text, "{") && json.Unmarshal([]byte(text), &found) == nil && found.Termination != ""
	return found, ok
}

// Name is the rule that took the request, such as team/web[0].
func (a Access) Name() string { return clean(route(&a)) }

// Endpoint is the backend and the endpoint that took the request, "-" if none did.
func (a Access) Endpoint() string { return clean(backend(&a)) }

// Request describes the request, and how it ended unless normally.
func (a Access) Request() string { return clean(request(&a)) }

// String describes the request and its result in a line.
func (a Access) String() string {
	text := fmt.Sprintf("%s  %s  %dms  route %s", status(&a), request(&a), max(a.MSTotal, 0), route(&a))
	if b := backend(&a); b != "-" {
		text += "  to " + b
	}
	return clean(text)
}
