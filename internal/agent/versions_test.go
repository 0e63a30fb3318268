package agent

import (
	"fmt"
	"strings"
	"testing"
)

// progressOf returns the progress of resources and namespaces, each written as "RESOURCE/NAMESPACE=LAST" or
// "...=LAST-SEEN".
func progressOf(all string) (of []progress) {
	for one := range strings.FieldsSeq(all) {
		place, versions, _ := strings.Cut(one, "=")
		resource, namespace, _ := strings.Cut(place, "/")
		last, seen, isLater := strings.Cut(versions, "-")
		if !isLater {
			seen = last
		}
		of = append(of, progress{resource, namespace, versionOf(seen), versionOf(last)})
	}
	return of
}

// TestVersions: a report grows with what changed lately and with what is not listed, and not with namespaces.
func TestVersions(t *testing.T) {
	for name, test := range map[string]struct{ of, want string }{
		"nothing is followed":              {"", " []"},
		"the base is the lowest":           {"httproutes/a=100 httproutes/b=99 routefilters/a=1000", "99 [{httproutes a 100} {routefilters a 1000}]"},
		"nothing changed lately":           {"httproutes/a=100 httproutes/b=100", "100 []"},
		"bookmarks":                        {"httproutes/a=100-120 httproutes/b=105-110 routefilters/b=115-120", "110 [{routefilters b 115}]"},
		"not listed":                       {"httproutes/a=100 httproutes/b=", "100 [{httproutes b 0}]"},
		"it waits":                         {"httproutes/a=100 httproutes/b=50-0", "100 [{httproutes b 50}]"},
		"nothing is listed":                {"httproutes/a= httproutes/b=", " [{httproutes a 0} {httproutes b 0}]"},
		"versions that are not comparable": {"httproutes/a=100 httproutes/b=x httproutes/c=0", "100 [{httproutes b 0} {httproutes c 0}]"},
	} {
		if got := newVersions(progressOf(test.of)); fmt.Sprint(got.Base, " ", got.Exceptions) != test.want {
			t.Errorf("%s: got %+v, want %s", name, got, test.want)
		}
	}
}

// TestVersionsHaveABound: what is left out is taken for older than it is.
func TestVersionsHaveABound(t *testing.T) {
	var of []progress
	for i := range 2 * maxExceptions {
		of = append(of, progress{"httproutes", fmt.Sprintf("n%04d", i), uint64(1000 + i), uint64(1000 + i)})
	}
	got := newVersions(of)
	if got.Base != "1000" || len(got.Exceptions) != maxExceptions || got.Exceptions[0] != of[maxExceptions].exception() {
		t.Errorf("of later ones: base %s, %d exceptions, the first %+v", got.Base, len(got.Exceptions), got.Exceptions[0])
	}
	for i := range maxExceptions + 1 {
		of[i].seen = 0
	}
	got = newVersions(of)
	if got.Base != "" || len(got.Exceptions) != maxExceptions-2 {
		t.Errorf("of those that are not listed: base %q, %d exceptions", got.Base, len(got.Exceptions))
	}
}
