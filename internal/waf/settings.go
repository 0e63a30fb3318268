package waf

import (
	"errors"

	"gateway/internal/question"
)

// Settings are the settings of a filter. HAProxy passes them on to gateway-waf with each question.
type Settings struct {
	// Paranoia is the highest level of the rules, from 1 to 4. Threshold is the score from which a request is refused.
	Paranoia, Threshold int32
	// Excluded are rules, or parts of requests that rules do not look at.
	Excluded []Exclusion `json:",omitempty"`
	// Rules is the name of the ConfigMap with rules of the user; "": there are none.
	Rules string `json:",omitempty"`
}

// Exclusion takes a rule away, or a part of requests from a rule.
type Exclusion struct {
	// Rule is the ID of a rule.
	Rule int32
	// Target is a part of requests; "": all. Name is the one of this kind.
	Target Target `json:",omitempty"`
	Name   string `json:",omitempty"`
}

// Target is a kind of parts of requests.
type Target string

// Parameters of the query or body, cookies and headers, by name.
const (
	Argument Target = "Argument"
	Cookie   Target = "Cookie"
	Header   Target = "Header"
)

const (
	// MaxBody is the longest body that gateway-waf looks at. The proxy has to hold the body while it asks.
	MaxBody = 128 << 10
	// DefaultBody is the default of a filter's body limit, in bytes.
	DefaultBody = 32 << 10
	// Allow is the only verdict by which a request passes.
	Allow = "allow"
	// Deny is the one by which it is refused.
	Deny = "deny"
)

// Question returns the path of a question.
func (s Settings) Question() string { return question.Path(s) }

// ParseQuestion returns the settings of a question.
func ParseQuestion(path string) (s Settings, err error) {
	if err := question.Parse(path, &s); err != nil {
		return Settings{}, err
	}
	if s.Paranoia < 1 || s.Paranoia > 4 || s.Threshold < 1 {
		return Settings{}, errors.New("settings are missing")
	}
	return s, nil
}
