package routing

import "strings"

// session is the rule for requests of clients that have a session with a backend of a split.
type session struct {
	cookie string
	rule   *Rule
}

// compileSessions returns the sessions of a rule with several backends, including backends of weight zero: clients
// with a session stay there (GEP-1619, "Traffic Splitting").
func compileSessions(rule *Rule, backends []Target) []session {
	if rule.Affinity == nil {
		return nil
	}
	var sessions []session
	seen := map[Backend]bool{}
	for _, target := range backends {
		if seen[target.Backend] {
			continue
		}
		seen[target.Backend] = true
		target.Weight = 1
		alone := *rule
		alone.Targets = []Target{target}
		sessions = append(sessions, session{cookie: rule.Affinity.Cookie(target.Backend), rule: &alone})
	}
	if len(sessions) == 1 && len(rule.Targets) > 0 {
		return nil // There is nothing to choose.
	}
	return sessions
}

// appendWithSessions appends the entries for the sessions of an entry's rule, then the entry itself.
func appendWithSessions(entries []Entry, entry Entry, sessions []session) []Entry {
	for _, session := range sessions {
		alone := entry
		alone.Session, alone.Rule = session.cookie, session.rule
		entries = append(entries, alone)
	}
	return append(entries, entry)
}

// hasCookie reports whether a header Cookie, whose values are joined by commas, has a cookie called name.
func hasCookie(header, name string) bool {
	for pair := range strings.FieldsFuncSeq(header, func(r rune) bool { return r == ';' || r == ',' }) {
		if strings.HasPrefix(strings.TrimLeft(pair, " \t"), name+"=") {
			return true
		}
	}
	return false
}
