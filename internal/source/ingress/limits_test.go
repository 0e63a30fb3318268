package ingress

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/ptr"
)

// rates returns the limits of each rule.
func rates(result *Result) (all []string) {
	for _, rule := range flatten(result) {
		text := ""
		for _, filter := range rule.extension.Filters {
			if filter.RateLimit != nil && filter.RateLimit.Concurrent != nil {
				text += fmt.Sprintf("%d at a time ", filter.RateLimit.Concurrent.Requests)
			}
			for i := 0; filter.RateLimit != nil && i < len(filter.RateLimit.Limits); i++ {
				limit := filter.RateLimit.Limits[i]
				text += fmt.Sprintf("%d/%s ", limit.Requests, limit.Unit)
				if limit.Key != nil {
					text += string(limit.Key.Type)
				}
			}
		}
		all = append(all, strings.TrimSpace(text))
	}
	return all
}

// limitTests are Ingresses with limits of requests.
var limitTests = map[string]struct {
	annotations map[string]string
	want        string
	// notes are those about annotations.
	notes []string
}{
	"per second": {map[string]string{"limit-rps": "10"}, "51/Second 600/Minute", []string{"limit-rps: " + limitNote}},
	"per minute": {map[string]string{"limit-rpm": "10"}, "51/Minute 600/Hour", []string{"limit-rpm: " + limitNote}},
	"both": {
		map[string]string{"limit-rps": "2", "limit-rpm": "30"}, "11/Second 120/Minute 1800/Hour",
		[]string{"limit-rpm, limit-rps: " + limitNote},
	},
	"both, the burst of the minute being less": {
		map[string]string{"limit-rps": "2", "limit-rpm": "10"}, "11/Second 51/Minute 600/Hour",
		[]string{"limit-rpm, limit-rps: " + limitNote},
	},
	"another burst": {map[string]string{"limit-rps": "10", "limit-burst-multiplier": "3"}, "31/Second 600/Minute", []string{"limit-rps: " + limitNote}},
	"the limit as burst": {
		map[string]string{"limit-rps": "10", "limit-burst-multiplier": "1"}, "11/Second 600/Minute", []string{"limit-rps: " + limitNote},
	},
	"no burst": {
		map[string]string{"limit-rps": "10", "limit-burst-multiplier": "0"}, "11/Second 600/Minute",
		[]string{"limit-burst-multiplier: " + noBurst, "limit-rps: " + limitNote},
	},
	"more burst than a minute has": {
		map[string]string{"limit-rps": "10", "limit-burst-multiplier": "61"}, "611/Second 600/Minute",
		[]string{"limit-burst-multiplier: " + longBurst, "limit-rps: " + limitNote},
	},
	"a burst that is no number": {
		map[string]string{"limit-rps": "10", "limit-burst-multiplier": "x"}, "51/Second 600/Minute",
		[]string{"limit-burst-multiplier: " + noNumber, "limit-rps: " + limitNote},
	},
	"more than a limit may be": {
		map[string]string{"limit-rps": "200000"}, "1000000/Second 1000000/Minute", []string{"limit-rps: " + limitNote + "\n" + mostRequests},
	},
	"no limit":              {map[string]string{"limit-rps": "0", "limit-rpm": "-1"}, "", nil},
	"no number":             {map[string]string{"limit-rps": "ten"}, "", []string{"limit-rps: " + noNumber}},
	"one that is no number": {map[string]string{"limit-rps": "ten", "limit-rpm": "10"}, "51/Minute 600/Hour", []string{"limit-rpm: " + limitNote, "limit-rps: " + noNumber}},
	"a burst alone":         {map[string]string{"limit-burst-multiplier": "3"}, "", []string{"limit-burst-multiplier: " + withoutLimit}},
	"exempt clients": {
		map[string]string{"limit-rps": "10", "limit-whitelist": "10.0.0.0/8"}, "51/Second 600/Minute",
		[]string{"limit-rps: " + limitNote, "limit-whitelist: " + noExemption},
	},
	"exempt clients by the newer name": {
		map[string]string{"limit-rpm": "10", "limit-allowlist": "10.0.0.0/8"}, "51/Minute 600/Hour",
		[]string{"limit-allowlist: " + noExemption, "limit-rpm: " + limitNote},
	},
	"exempt clients alone":  {map[string]string{"limit-whitelist": "10.0.0.0/8"}, "", []string{"limit-whitelist: " + withoutLimits}},
	"no clients are exempt": {map[string]string{"limit-rps": "10", "limit-whitelist": ""}, "51/Second 600/Minute", []string{"limit-rps: " + limitNote}},
	"connections":           {map[string]string{"limit-connections": "10"}, "10 at a time", []string{"limit-connections: " + atATimeNote}},
	"connections and rates": {
		map[string]string{"limit-connections": "10", "limit-rps": "2", "limit-whitelist": "10.0.0.0/8"}, "10 at a time 11/Second 120/Minute",
		[]string{"limit-connections: " + atATimeNote, "limit-rps: " + limitNote, "limit-whitelist: " + noExemption},
	},
	"connections and exempt clients": {
		map[string]string{"limit-connections": "10", "limit-allowlist": "10.0.0.0/8"}, "10 at a time",
		[]string{"limit-allowlist: " + noExemption, "limit-connections: " + atATimeNote},
	},
	"too many connections": {
		map[string]string{"limit-connections": "2000000"}, "1000000 at a time", []string{"limit-connections: " + atATimeNote + "\n" + mostRequests},
	},
	"connections that are no number": {map[string]string{"limit-connections": "many"}, "", []string{"limit-connections: " + noNumber}},
	"no limit of connection":         {map[string]string{"limit-connections": "0"}, "", nil},
	"a redirect, which nginx answers with before it counts": {
		map[string]string{"limit-rps": "10", "permanent-redirect": "https://b.example.com"}, "",
		[]string{"limit-rps: " + limitNote, "permanent-redirect: the request's query is appended, which nginx drops"},
	},
}

// TestRateLimits is about the annotations that say how many requests a client may send.
func TestRateLimits(t *testing.T) {
	for name, test := range limitTests {
		t.Run(name, func(t *testing.T) {
			result := annotated(t, test.annotations)
			if got := rates(result); !slices.Equal(got, []string{test.want}) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			var notes []string
			for _, want := range test.notes {
				annotation, lines, _ := strings.Cut(want, ": ")
				for line := range strings.SplitSeq(lines, "\n") {
					notes = append(notes, "annotation "+annotation+": "+line)
				}
			}
			if !slices.EqualFunc(ofIngresses(result), notes, func(n Note, want string) bool { return n.Text == want }) {
				t.Errorf("got the notes %q, want %q", result.Notes, notes)
			}
		})
	}
}

// TestRateLimitsOfPaths: each path has the limits of its own Ingress, also with a canary.
func TestRateLimitsOfPaths(t *testing.T) {
	text := fmt.Sprintf(ingressWithPath, "a", Prefix+`limit-rps: "1", `+Prefix+`enable-cors: "true"`, "/a", "Prefix") +
		fmt.Sprintf(ingressWithPath, "c", Prefix+`canary: "true", `+Prefix+`canary-by-header: X-Canary, `+Prefix+`limit-rps: "7"`, "/a", "Prefix") +
		fmt.Sprintf(ingressWithPath, "b", Prefix+`limit-rpm: "2"`, "/b", "Prefix") +
		fmt.Sprintf(ingressWithPath, "web", "", "/", "Prefix")
	want := []string{"11/Minute 120/Hour", "6/Second 60/Minute", "6/Second 60/Minute", "6/Second 60/Minute", ""}
	got := rates(convertText(t, text))
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestRates: what nginx's limit_rate and limit_rate_after are.
func TestRates(t *testing.T) {
	for name, test := range map[string]struct {
		annotations map[string]string
		want, note  string
	}{
		"a rate":               {map[string]string{"limit-rate": "100"}, "102400 from 0", ""},
		"no rate":              {map[string]string{"limit-rate": "0"}, "", ""},
		"no number":            {map[string]string{"limit-rate": "fast"}, "", "annotation limit-rate: " + noNumber},
		"more than there is":   {map[string]string{"limit-rate": "2000000"}, "1073741824 from 0", ""},
		"long answers":         {map[string]string{"limit-rate": "1", "limit-rate-after": "64"}, "1024 from 65537", "annotation limit-rate-after: " + fromStart},
		"all answers":          {map[string]string{"limit-rate": "1", "limit-rate-after": "0"}, "1024 from 0", ""},
		"a beginning, no rate": {map[string]string{"limit-rate-after": "64"}, "", "annotation limit-rate-after: it has no effect without limit-rate"},
	} {
		result, got, note := convertText(t, mainAndOther(test.annotations)), "", ""
		for _, rule := range flatten(result) {
			for _, filter := range rule.extension.Filters {
				if limit := filter.BandwidthLimit; limit != nil && limit.Request == nil {
					got = fmt.Sprint(limit.Response.BytesPerSecond, " from ", ptr.Deref(limit.Response.MinBytes, 0))
				}
			}
		}
		for _, one := range ofIngresses(result) {
			note += one.Text
		}
		if got != test.want || note != test.note {
			t.Errorf("%s: got %q and %q, want %q and %q", name, got, note, test.want, test.note)
		}
	}
}
