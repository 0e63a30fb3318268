package cli

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/source/gatewayapi"
)

var (
	// aboutObject is how messages about an object begin, aboutRoute and aboutListener those about a part of a Gateway.
	aboutObject   = regexp.MustCompile(`^(\w+) ([^ /:]+)/([^ /:]+)(: | has )`)
	aboutRoute    = regexp.MustCompile(`^route "?(?:([^" /:]+)/)?([^" /:]+)"?(: | )`)
	aboutListener = regexp.MustCompile(`^listener ([^ :]+): `)
	aboutService  = regexp.MustCompile(`^Service ([^ /:]+)/([^ /:]+) is not `)
	// noObject names an object that is not there.
	noObject = regexp.MustCompile(`there is no (RouteFilter|GatewayConfig) ([^ /:]+)/([^ /:]+)$`)
	// aboutField is the field that a message names.
	aboutField = regexp.MustCompile(`\b(?:spec\.)?((?:rules|targetRefs|parentRefs|backends|infrastructure|hostnames)\b[\w\[\].]*\w)\b`)
)

// Describe returns a message about a part of a Gateway, with the Gateway, the file and the line if they are known, and
// the object that is meant by one that is not there.
func (s *Site) Describe(message string) string {
	hint := ""
	if match := noObject.FindStringSubmatch(message); match != nil {
		var names []string
		for _, d := range s.documents {
			if d.Object.GetKind() == match[1] && d.Object.GetNamespace() == match[2] {
				names = append(names, d.Object.GetName())
			}
		}
		if near := Similar(match[3], names); near != "" {
			hint = fmt.Sprintf(": do you mean %s?", near)
		}
	}
	return s.where(message) + s.Name() + ": " + message + hint
}

// where returns the file and the line that a message is about, with a colon; "" if nobody knows.
func (s *Site) where(message string) string {
	group := appv1.GroupName
	if s.IsGatewayAPI {
		group = gatewayv1.GroupName
	}
	if match := aboutListener.FindStringSubmatch(message); match != nil {
		return place(s.documents, group, "Gateway", s.Gateway.Namespace, s.Gateway.Name, func(d Document) string { return named(d, match[1], "listeners") })
	}
	if match := aboutRoute.FindStringSubmatch(message); match != nil && match[1] == "" {
		return place(s.documents, group, "Gateway", s.Gateway.Namespace, s.Gateway.Name, func(d Document) string {
			return named(d, match[2], "routes", "tcpRoutes", "tlsRoutes") + fieldIn(".", message)
		})
	} else if match != nil {
		return place(s.documents, gatewayv1.GroupName, "", match[1], match[2], func(Document) string { return fieldIn("spec.", message) })
	}
	if match := aboutService.FindStringSubmatch(message); match != nil {
		return whereNamed(s.documents, match[1], match[2])
	}
	return whereObject(s.documents, message)
}

// whereNamed returns where an object first refers to a Service.
func whereNamed(documents []Document, namespace, name string) (where string) {
	for _, d := range documents {
		walk(d.Object.Object["spec"], "spec", func(path, text string) {
			isReference := strings.Contains(path, "ackendRefs[") || strings.Contains(path, "backends[") // also of mirrors
			if where == "" && text == name && isReference && strings.HasSuffix(path, ".name") && d.Object.GetNamespace() == namespace {
				where = d.At(path) + ": "
			}
		})
	}
	return where
}

// whereObject returns the file and the line that a message about an object is about, with a colon; "" if nobody knows.
func whereObject(documents []Document, message string) string {
	match := aboutObject.FindStringSubmatch(message)
	if match == nil {
		return ""
	}
	return place(documents, "", match[1], match[2], match[3], func(Document) string { return fieldIn("spec.", message) })
}

// place returns where a field of an object is. A group or a kind that is empty may be any.
func place(documents []Document, group, kind, namespace, name string, field func(Document) string) string {
	for _, d := range documents {
		of := d.Object.GroupVersionKind()
		if cmp.Or(group, of.Group) == of.Group && cmp.Or(kind, of.Kind) == of.Kind && d.Object.GetNamespace() == namespace && d.Object.GetName() == name {
			return d.At(field(d)) + ": "
		}
	}
	return ""
}

// fieldIn returns the field that a message names, after a prefix; "": it names none.
func fieldIn(prefix, message string) string {
	if match := aboutField.FindStringSubmatch(message); match != nil {
		return prefix + match[1]
	}
	return ""
}

// named returns the element with a name of a list in the spec.
func named(d Document, name string, lists ...string) string {
	spec, _ := d.Object.Object["spec"].(map[string]any)
	for _, list := range lists {
		for i, element := range Maps(spec[list]) {
			if element["name"] == name {
				return fmt.Sprintf("spec.%s[%d]", list, i)
			}
		}
	}
	return "spec"
}

// stray returns why a route has no effect: its parents are not in the files.
func (c *contents) stray(route gatewayapi.Object, parents map[gatewayapi.Parent]bool) string {
	about := fmt.Sprintf("%s %s/%s has no effect: spec.parentRefs", route.Kind, route.Namespace, route.Name)
	i := slices.IndexFunc(c.documents, func(d Document) bool {
		return d.Object.GetKind() == route.Kind && d.Object.GetNamespace() == route.Namespace && d.Object.GetName() == route.Name
	})
	refs := Maps(c.documents[i].value("spec.parentRefs"))
	if len(refs) == 0 {
		return about + " is empty: name the Gateway there"
	}
	want := parentIn(refs[0], route.Namespace)
	var names []string
	sorted := slices.SortedFunc(maps.Keys(parents), func(a, b gatewayapi.Parent) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	for _, parent := range sorted {
		isNamed := parent.Name == want.Name
		switch {
		case isNamed && parent.Namespace == want.Namespace && parent.Kind == want.Kind:
			return fmt.Sprintf("%s[0]: %s %s/%s is of another group: write group: %s", about, parent.Kind, parent.Namespace, parent.Name, parent.Group)
		case isNamed && parent.Kind == want.Kind:
			return fmt.Sprintf("%s[0]: there is no %s %s/%s in the files, but %s/%[4]s: write namespace: %[5]s", about, want.Kind, want.Namespace, want.Name, parent.Namespace)
		case isNamed && parent.Namespace == want.Namespace:
			return fmt.Sprintf("%s[0]: %s/%s is a %s: write kind: %[4]s", about, parent.Namespace, parent.Name, parent.Kind)
		}
		names = append(names, parent.Name)
	}
	do := "correct its name, or add it to the files"
	if near := Similar(want.Name, names); near != "" {
		do = fmt.Sprintf("do you mean %s?", near)
	}
	return fmt.Sprintf("%s[0]: there is no %s %s/%s in the files: %s", about, want.Kind, want.Namespace, want.Name, do)
}
