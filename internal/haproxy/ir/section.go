package ir

// Section is a section of haproxy.cfg.
type Section struct {
	// Header is the first line: "frontend 80 from routing".
	Header string
	// Lines are the others.
	Lines []Line
	// Reason is why a reload is needed where the section is new or another one, one of the Reload constants.
	Reason string
	// MayStay reports whether the section does no harm once it is not desired any more. Otherwise a reload removes it.
	MayStay bool
}

// Line is a line of a section.
type Line struct {
	// Text is the line without indentation.
	Text string
	// Reason is "" for a line that has to be there exactly as long as it is desired. Any other line does nothing for
	// requests and connections that have no use for it, so it may stay. Then Reason is why a reload adds it.
	Reason string
}

// Lines returns the lines with these texts, all with the same reason.
func Lines(reason string, texts ...string) []Line {
	lines := make([]Line, len(texts))
	for i, text := range texts {
		lines[i] = Line{Text: text, Reason: reason}
	}
	return lines
}

// Why a reload is needed. These are values of a metric label.
const (
	ReloadFirst        = "first load"
	ReloadPorts        = "listener ports or TLS settings changed"
	ReloadCertificates = "certificates changed"
	// ReloadDefaults: a backend has settings that only a section can have, and that none had before.
	ReloadDefaults = "a backend with new settings"
	// ReloadNames: HAProxy has rules for names of headers and parameters, for fixed answers, and for filters that are
	// in use, and one of them is new.
	ReloadNames = "a new name of a header or parameter, a new fixed answer, or the first filter of a type"
	// ReloadLimits: HAProxy has a table for each unit of rate limits, and for concurrent requests, and one of them was
	// not there before.
	ReloadLimits = "the first rate limit, the first of its unit, or the first of concurrent requests"
	// ReloadCache: HAProxy has a section for the response cache, and rules for it in all frontends.
	ReloadCache = "the first or last filter Cache, or other settings of the response cache"
	// ReloadKeys: HAProxy reads the keys that tokens are signed with when it starts.
	ReloadKeys = "the first filter JWT, or a new key of one"
	// ReloadSettings is anything else, as after an upgrade of the agent.
	ReloadSettings = "global settings changed"
)
