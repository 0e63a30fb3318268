package ingress

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appv1 "gateway/api/app/v1"
)

const asked = "http://login.a.svc.cluster.local:4180/oauth2/auth"

// authTests are Ingresses whose requests are to be decided about by a Service.
var authTests = map[string]struct {
	annotations map[string]string
	want        string
	// notes are those about annotations.
	notes []string
}{
	"a Service": {map[string]string{"auth-url": asked}, "/ Service a asks login:4180/oauth2/auth []", []string{"auth-url: " + authNote}},
	"headers for the backend": {
		map[string]string{"auth-url": asked, "auth-response-headers": "X-User, X-Email"},
		"/ Service a asks login:4180/oauth2/auth [X-Email X-User]", []string{"auth-url: " + authNote},
	},
	"without a port or a path": {
		map[string]string{"auth-url": "http://login.a.svc"}, "/ Service a asks login:80/ []", []string{"auth-url: " + authNote},
	},
	"a query": {
		map[string]string{"auth-url": "http://login.a.svc/a%20b?c=d&e=f"}, "/ Service a asks login:80/a%20b?c=d&e=f []", []string{"auth-url: " + authNote},
	},
	"a place to sign in": {
		map[string]string{"auth-url": asked, "auth-signin": "https://login.example.com/start?rd=$escaped_request_uri", "auth-method": "GET", "auth-cache-key": "$cookie_a"},
		"/ Service a asks login:4180/oauth2/auth []",
		[]string{"auth-cache-key: " + cacheNote, "auth-signin: " + authSignIn, "auth-url: " + authNote},
	},
	"another namespace":           {map[string]string{"auth-url": "http://login.other.svc/"}, "/ Service a asks login:80/ []", []string{"auth-url: " + authNote}},
	"a name that is no Service's": {map[string]string{"auth-url": "http://login.other/"}, "/ 503", []string{"auth-url: " + authURL + closedNote}},
	"another host":                {map[string]string{"auth-url": "http://login.example.com/"}, "/ 503", []string{"auth-url: " + authURL + closedNote}},
	"HTTPS":                       {map[string]string{"auth-url": "https://login.a.svc/"}, "/ 503", []string{"auth-url: " + authURL + closedNote}},
	"a variable":                  {map[string]string{"auth-url": "http://login.a.svc/$request_uri"}, "/ 503", []string{"auth-url: " + authURL + closedNote}},
	"a password":                  {map[string]string{"auth-url": "http://a:b@login.a.svc/"}, "/ 503", []string{"auth-url: " + authURL + closedNote}},
	"a port of none":              {map[string]string{"auth-url": "http://login.a.svc:0/"}, "/ 503", []string{"auth-url: " + authURL + closedNote}},
	"no URL":                      {map[string]string{"auth-url": ":"}, "/ 503", []string{"auth-url: " + authURL + closedNote}},
	"a header that frames": {
		map[string]string{"auth-url": asked, "auth-response-headers": "Content-Length"}, "/ 503",
		[]string{"auth-url: Content-Length: " + authHeaders + closedNote},
	},
	"too many headers": {
		map[string]string{"auth-url": asked, "auth-response-headers": "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q"}, "/ 503",
		[]string{"auth-url: q: " + authHeaders + closedNote},
	},
	"another method": {
		map[string]string{"auth-url": asked, "auth-method": "POST"}, "/ 503",
		[]string{"auth-method: the Service is asked by GET" + closedNote, "auth-url: " + authNote},
	},
	"a snippet": {
		map[string]string{"auth-url": asked, "auth-snippet": "a"}, "/ 503", []string{"auth-snippet: " + authPolicy + closedNote, "auth-url: " + authNote},
	},
	"passwords": {
		map[string]string{"auth-type": "basic", "auth-secret": "users", "auth-secret-type": "auth-file", "auth-realm": "The Shop"},
		`/ Service a users of users for "The Shop"`, []string{"auth-type: " + passwordNote},
	},
	"passwords, in full, and a Service": {
		map[string]string{"auth-type": "basic", "auth-secret": "a/users", "auth-realm": `a "b"`, "auth-url": asked},
		`/ Service a users of users for "" asks login:4180/oauth2/auth []`, []string{"auth-type: " + passwordNote, "auth-url: " + authNote},
	},
	"passwords of another namespace": {
		map[string]string{"auth-type": "basic", "auth-secret": "b/users"}, "/ 503", []string{"auth-type: " + passwordSecret + closedNote},
	},
	"a key for each user": {
		map[string]string{"auth-type": "basic", "auth-secret": "users", "auth-secret-type": "auth-map"}, "/ 503",
		[]string{"auth-type: " + passwordSecret + closedNote},
	},
	"passwords of no Secret": {map[string]string{"auth-type": "basic"}, "/ 503", []string{"auth-type: " + passwordSecret + closedNote}},
	"digests": {
		map[string]string{"auth-type": "digest", "auth-secret": "users"}, "/ 503", []string{"auth-type: " + authPolicy + closedNote},
	},
	"a Secret for nothing": {
		map[string]string{"auth-secret": "users", "auth-realm": "a"}, "/ Service a", []string{"auth-realm, auth-secret: it has no effect without auth-type"},
	},
	"nobody to ask": {
		map[string]string{"auth-signin": "https://a", "auth-response-headers": "a", "auth-cache-key": "$cookie_a", "auth-cache-duration": "1m"}, "/ Service a",
		[]string{"auth-cache-duration, auth-cache-key, auth-response-headers, auth-signin: it has no effect without auth-url"},
	},
}

const closedNote = ". " + Answered

// TestAuth is about the annotations that have a Service decide about requests. What of them cannot be kept closes.
func TestAuth(t *testing.T) {
	for name, test := range authTests {
		t.Run(name, func(t *testing.T) {
			result := annotated(t, test.annotations)
			if got := limits(result); !slices.Equal(got, []string{test.want}) {
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
				t.Errorf("got the notes %q, want %q", result.Notes, test.notes)
			}
		})
	}
}

// TestPathsWithAuth: a path whose requests have to be decided about is not open because another Ingress has the host,
// too.
func TestPathsWithAuth(t *testing.T) {
	guard := Prefix + "auth-url: " + asked + ", " + Prefix
	for name, test := range map[string]struct {
		guarded string
		want    []string
	}{
		"what nginx takes for more than segments": {
			fmt.Sprintf(ingressWithPath, "a", guard+"enable-cors: \"false\"", "/a", "ImplementationSpecific"),
			[]string{"/a.* Service a asks login:4180/oauth2/auth []", "/ Service web"},
		},
		"an expression that cannot be given": {
			fmt.Sprintf(ingressWithPath, "a", guard+"use-regex: \"true\"", "/a/(?!b)", "ImplementationSpecific"),
			[]string{"(?i)/a/.* 503", "/ Service web"},
		},
		"such an expression, with passwords": {
			fmt.Sprintf(ingressWithPath, "a", Prefix+"auth-type: basic, "+Prefix+"auth-secret: users, "+Prefix+"use-regex: \"true\"", "/a/(?!b)", "ImplementationSpecific"),
			[]string{"(?i)/a/.* 503", "/ Service web"},
		},
	} {
		if got := limits(convertText(t, test.guarded+fmt.Sprintf(ingressWithPath, "web", "", "/", "Prefix"))); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// TestGlobalAuthIsOnUnlessFalse: a value that is no boolean counts as true.
func TestGlobalAuthIsOnUnlessFalse(t *testing.T) {
	const controller = "\n{apiVersion: v1, kind: ConfigMap, metadata: {name: controller}, data: {global-auth-url: 'http://login.a.svc/'}}\n---"
	for value, isAsked := range map[string]bool{"no": true, "off": true, "": true, "FALSE": false, "0": false, "false": false, "true": true} {
		result := convertText(t, controller+pathOf(home, "web", "a.test", "/", fmt.Sprintf("%senable-global-auth: %q", Prefix, value)))
		if rule := flatten(result)[0]; isAsked != slices.ContainsFunc(rule.extension.Filters, func(f appv1.RuleFilter) bool { return f.ExternalAuth != nil }) {
			t.Errorf("%q: got the filters %+v", value, rule.extension.Filters)
		}
	}
}
