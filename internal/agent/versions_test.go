package agent

import (
	"fmt"
	"strings"
	"testing"

	appv1 "gateway/api/app/v1"
)

// followed are resources and namespaces that are written as "RESOURCE/NAMESPACE=VERSION".
func followed(all string) (resources []appv1.ProxiedResource) {
	for one := range strings.FieldsSeq(all) {
		place, version, _ := strings.Cut(one, "=")
		resource, namespace, _ := strings.Cut(place, "/")
		resources = append(resources, appv1.ProxiedResource{Resource: resource, Namespace: namespace, ResourceVersion: version})
	}
	return resources
}

// TestVersions: a report grows with what changed lately and with what is not listed, and not with namespaces.
func TestVersions(t *testing.T) {
	for name, test := range map[string]struct{ of, want string }{
		"nothing is followed":              {"", ""},
		"the base is the lowest":           {"httproutes/a=100 httproutes/b=99 routefilters/a=1000", "99 httproutes/a=100 routefilters/a=1000"},
		"nothing changed lately":           {"httproutes/a=100 httproutes/b=100", "100"},
		"not listed":                       {"httproutes/a=100 httproutes/b=", "100 httproutes/b=0"},
		"nothing is listed":                {"httproutes/a= httproutes/b=", " httproutes/a=0 httproutes/b=0"},
		"cluster":                          {"httproutes/=100 routefilters/=90 referencegrants/=", "90 httproutes/=100 referencegrants/=0"},
		"versions that are not comparable": {"httproutes/a=100 httproutes/b=x httproutes/c=0", "100 httproutes/b=0 httproutes/c=0"},
	} {
		got := newVersions(followed(test.of), 7)
		if base, exceptions, _ := strings.Cut(test.want, " "); got.Base != base || fmt.Sprint(got.Exceptions) != fmt.Sprint(followed(exceptions)) || got.Edits != 7 {
			t.Errorf("%s: got %+v, want %s", name, got, test.want)
		}
	}
}

// TestVersionsHaveABound: what is left out is taken for older than it is.
func TestVersionsHaveABound(t *testing.T) {
	var of []appv1.ProxiedResource
	for i := range 2 * maxExceptions {
		of = append(of, appv1.ProxiedResource{Resource: "httproutes", Namespace: fmt.Sprintf("n%04d", i), ResourceVersion: fmt.Sprint(1000 + i)})
	}
	got := newVersions(of, 0)
	if got.Base != "1000" || len(got.Exceptions) != maxExceptions || got.Exceptions[0] != of[maxExceptions] {
		t.Errorf("of later ones: base %s, %d exceptions, the first %+v", got.Base, len(got.Exceptions), got.Exceptions[0])
	}
	for i := range maxExceptions + 1 {
		of[i].ResourceVersion = ""
	}
	got = newVersions(of, 0)
	if got.Base != "" || len(got.Exceptions) != maxExceptions-2 {
		t.Errorf("of those that are not listed: base %q, %d exceptions", got.Base, len(got.Exceptions))
	}
}
