package model

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
)

// TestBackends: Services of one name in two namespaces are two, by order, name and cookie.
func TestBackends(t *testing.T) {
	t.Parallel()
	backends := []Backend{{"two", "web", 80}, {"one", "web", 443}, {"one", "web", 80}, {"one", "api", 80}, {"", "web", 80}}
	slices.SortFunc(backends, CompareBackends)
	if got := fmt.Sprint(backends); got != "[web:80 one/api:80 one/web:80 one/web:443 two/web:80]" {
		t.Errorf("got %s", got)
	}
	cookies := map[string]bool{}
	for _, backend := range backends {
		cookies[(&Affinity{Name: "session"}).Cookie(backend)] = true
	}
	if len(cookies) != len(backends) {
		t.Errorf("%d backends have the cookies %v", len(backends), cookies)
	}
}

func TestHostnames(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		hostname, other   string
		matches, overlaps bool
	}{
		{"", "a.io", true, true},
		{"a.io", "a.io", true, true},
		{"a.io", "b.io", false, false},
		{"*.io", "a.io", true, true},
		{"*.io", "b.a.io", true, true},
		{"*.a.io", "a.io", false, false},
		{"*.a.io", ".a.io", false, false},
		{"*.a.io", "*.io", false, true},
		{"a.io", "", false, true},
	} {
		if got := HostnameMatches(test.hostname, test.other); got != test.matches {
			t.Errorf("%q matches %q: %t", test.hostname, test.other, got)
		}
		if got := HostnamesOverlap(test.hostname, test.other); got != test.overlaps {
			t.Errorf("%q and %q overlap: %t", test.hostname, test.other, got)
		}
	}
}

// TestWith: an action has the filters of a listener, but for those that it has itself.
func TestWith(t *testing.T) {
	limits := func(listener string) []RateLimit { return []RateLimit{{Listener: listener, Requests: 1}} }
	filters := &Action{
		MaxBody: new(int64(9)), CORS: &CORS{}, Clients: &Clients{}, RateLimits: limits("l"), JWT: &JWT{}, ExternalAuth: &ExternalAuth{},
		Headers: HeaderChanges{
			Request:  []HeaderChange{{Name: "a", Clear: true, Values: []string{"1"}}, {Name: "b", Clear: true, Values: []string{"1"}}},
			Response: []HeaderChange{{Name: "c", Values: []string{"1"}}},
		},
	}
	own := Action{
		CORS: &CORS{}, Clients: &Clients{}, RateLimits: limits(""), BasicAuth: &BasicAuth{}, ExternalAuth: &ExternalAuth{},
		MaxBody: new(int64(7)), Cache: true,
		Headers: HeaderChanges{Request: []HeaderChange{{Name: "a", Clear: true, Values: []string{"2"}}, {Name: "b", Values: []string{"2"}}}},
	}
	want := own
	want.Headers = HeaderChanges{
		Request:  []HeaderChange{{Name: "a", Clear: true, Values: []string{"2"}}, {Name: "b", Clear: true, Values: []string{"1", "2"}}},
		Response: filters.Headers.Response,
	}
	if got := own.With(filters); !reflect.DeepEqual(*got, want) || got.CORS != own.CORS || got.Clients != own.Clients || got.ExternalAuth != own.ExternalAuth {
		t.Errorf("got %+v, want %+v", got, want)
	}
	want = *filters
	if got := (&Action{}).With(filters); !reflect.DeepEqual(*got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := own.With(nil); got != &own {
		t.Errorf("got %+v, want %+v", got, own)
	}
}
