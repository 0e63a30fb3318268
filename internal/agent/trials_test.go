package agent

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func ids(names ...string) []certificateID {
	var all []certificateID
	for _, name := range names {
		all = append(all, certificateID{name, "1"})
	}
	return all
}

// Of whatever certificates are bad, exactly these are left out in the end, and everything else is loaded.
func TestTrialsFindWhatIsRefused(t *testing.T) {
	now := time.Unix(1000, 0)
	wanted := ids("a", "b", "c", "d", "e")
	for bits := range 1 << len(wanted) {
		var bad []certificateID
		for i, id := range wanted {
			if bits>>i&1 == 1 {
				bad = append(bad, id)
			}
		}
		var tr trials
		good := map[certificateID]bool{}
		loads := 0
		for {
			proven, trial := tr.next(wanted, good, now)
			if len(trial) == 0 {
				break
			}
			if loads++; loads > 20 {
				t.Fatalf("bad %v: no end, at %v", bad, trial)
			}
			if slices.ContainsFunc(trial, func(id certificateID) bool { return slices.Contains(bad, id) }) {
				tr.blame(trial, now)
				if len(trial) > 1 && slices.ContainsFunc(trial, tr.isRefused) {
					t.Fatalf("bad %v: %v were refused together, and all are blamed", bad, trial)
				}
			} else {
				good = setOf(proven, trial)
			}
		}
		for _, id := range wanted {
			if _, refused := tr.refused[id]; refused != slices.Contains(bad, id) || good[id] == refused {
				t.Errorf("bad %v: %s is good=%t refused=%t", bad, id.secret, good[id], refused)
			}
		}
	}
}

func TestRefusedCertificatesAreTriedAgain(t *testing.T) {
	now := time.Unix(1000, 0)
	var tr trials
	bad := ids("bad")
	want := firstRetry
	for range 12 {
		if _, trial := tr.next(bad, nil, now); !slices.Equal(trial, bad) {
			t.Fatalf("at %s it is not tried: %v", now, trial)
		}
		tr.blame(bad, now)
		if _, trial := tr.next(bad, nil, now.Add(want-1)); trial != nil {
			t.Errorf("it is tried again before %s", want)
		}
		now = now.Add(want)
		want = min(2*want, lastRetry)
	}
	if want != lastRetry {
		t.Errorf("the last wait is %s", want)
	}
	// It is put right: that HAProxy has loaded it clears it.
	if _, trial := tr.next(bad, setOf(bad), now); trial != nil || len(tr.refused) > 0 {
		t.Errorf("after all, %v is tried and %v refused", trial, tr.refused)
	}
}

func TestAnotherContentIsAnotherCertificate(t *testing.T) {
	now := time.Unix(1000, 0)
	var tr trials
	tr.blame(ids("bad"), now)
	renewed := []certificateID{{"bad", "2"}}
	if _, trial := tr.next(renewed, nil, now); !slices.Equal(trial, renewed) || len(tr.refused) > 0 {
		t.Errorf("the renewed one: %v is tried, %v refused", trial, tr.refused)
	}
	// Something new is tried before anything that waits.
	tr = trials{}
	tr.blame(ids("a", "b"), now)
	if _, trial := tr.next(ids("a", "b", "new"), nil, now); fmt.Sprint(trial) != fmt.Sprint(ids("new")) {
		t.Errorf("tried first: %v", trial)
	}
}
