package agent

import (
	"maps"
	"slices"
	"strings"
	"time"

	"gateway/internal/haproxy/config"
)

// certificateID is one content of a Secret.
type certificateID struct{ secret, hash string }

func (c certificateID) compare(other certificateID) int {
	return strings.Compare(c.secret+" "+c.hash, other.secret+" "+other.hash)
}

// trials find out which certificates HAProxy refuses that were passed on: one that is signed with a hash too weak for its OpenSSL, or of a kind of
// which Go cannot tell that the key does not fit.
// It refuses a configuration as a whole, without saying why. Only the loop touches them.
type trials struct {
	// refused are certificates that were refused by themselves.
	refused map[certificateID]failure
	// groups are certificates that were refused together with others, and that are tried group by group.
	groups [][]certificateID
}

// next returns the certificates to load: those that HAProxy has loaded before, and those of the others that it is to be
// asked about now.
func (t *trials) next(wanted []certificateID, good map[certificateID]bool, now time.Time) (proven, trial []certificateID) {
	open := map[certificateID]bool{}
	for _, id := range wanted {
		if good[id] {
			proven = append(proven, id)
		} else {
			open[id] = true
		}
	}
	t.keep(open)
	fresh := maps.Clone(open)
	for id := range t.refused {
		delete(fresh, id)
	}
	for _, group := range t.groups {
		for _, id := range group {
			delete(fresh, id)
		}
	}
	switch {
	case len(fresh) > 0:
		trial = slices.SortedFunc(maps.Keys(fresh), certificateID.compare)
	case len(t.groups) > 0:
		trial = t.groups[0]
	default:
		for _, id := range slices.SortedFunc(maps.Keys(t.refused), certificateID.compare) {
			if !now.Before(t.refused[id].until) {
				return proven, []certificateID{id}
			}
		}
	}
	return proven, trial
}

// keep forgets what is not to be asked about any more.
func (t *trials) keep(open map[certificateID]bool) {
	maps.DeleteFunc(t.refused, func(id certificateID, _ failure) bool { return !open[id] })
	var groups [][]certificateID
	for _, group := range t.groups {
		group = slices.DeleteFunc(slices.Clone(group), func(id certificateID) bool { return !open[id] })
		if len(group) > 0 {
			groups = append(groups, group)
		}
	}
	t.groups = groups
}

// blame notes that HAProxy refuses these certificates, and takes what there is without them. One is known then; of several,
// each half is tried by itself.
func (t *trials) blame(trial []certificateID, now time.Time) {
	t.groups = slices.DeleteFunc(t.groups, func(group []certificateID) bool { return slices.Equal(group, trial) })
	if len(trial) > 1 {
		half := len(trial) / 2
		t.groups = slices.Insert(t.groups, 0, trial[:half:half], trial[half:])
		return
	}
	if t.refused == nil {
		t.refused = map[certificateID]failure{}
	}
	for _, id := range trial {
		delay := min(max(2*t.refused[id].delay, firstRetry), lastRetry)
		t.refused[id] = failure{delay: delay, until: now.Add(delay)}
	}
}

// isRefused says whether it is known that HAProxy refuses a certificate.
func (t *trials) isRefused(id certificateID) bool {
	_, refused := t.refused[id]
	return refused
}

// identify returns all certificates, each once and sorted.
func identify(certificates map[string][]config.Certificate) []certificateID {
	seen := map[certificateID]bool{}
	for _, list := range certificates {
		for _, certificate := range list {
			seen[certificateID{certificate.Secret, certificate.Hash}] = true
		}
	}
	return slices.SortedFunc(maps.Keys(seen), certificateID.compare)
}

// restrict returns the certificates that are among the given ones. A listener that has none is not in the result.
func restrict(certificates map[string][]config.Certificate, to map[certificateID]bool) map[string][]config.Certificate {
	kept := map[string][]config.Certificate{}
	for listener, list := range certificates {
		for _, certificate := range list {
			if to[certificateID{certificate.Secret, certificate.Hash}] {
				kept[listener] = append(kept[listener], certificate)
			}
		}
	}
	return kept
}

func setOf(lists ...[]certificateID) map[certificateID]bool {
	set := map[certificateID]bool{}
	for _, list := range lists {
		for _, id := range list {
			set[id] = true
		}
	}
	return set
}
