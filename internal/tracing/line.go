package tracing

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// line is what HAProxy says about a sampled request, see render/trace.go. What is not known is "-", or a negative
// number. Start and end are in microseconds since 1970, and what begins with Ms is in milliseconds.
type line struct {
	Number, Start, End                                           int64
	TraceID, SpanID, ParentID                                    hexID
	Client, Scheme, Version, Port, Method, Host, Path, UserAgent string
	ClientPort, Status, BytesIn, BytesOut                        int64
	MsRequest, MsQueue, MsResponse                               int64
	Route, Rule, Listener, Backend, Filter                       string
	Server, ServerAddress, ServerPort, Retries, Termination      string
}

// hexID is an ID, nil if there is none.
type hexID []byte

// UnmarshalText reads digits.
func (id *hexID) UnmarshalText(text []byte) error {
	*id = nil
	if string(text) == "-" {
		return nil
	}
	decoded, err := hex.DecodeString(string(text))
	*id = decoded
	return err
}

// parse reads a line.
func parse(text []byte) (*line, error) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return nil, err
	}
	if len(l.TraceID) != 16 || len(l.SpanID) != 8 {
		return nil, fmt.Errorf("%.200q has no IDs", text)
	}
	return &l, nil
}
