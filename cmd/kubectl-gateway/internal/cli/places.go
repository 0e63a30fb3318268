package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
	"gateway/internal/source/gatewayapi"
)

// Describe returns a problem of the Gateway, with the Gateway, the file and the line if they are known, and the object
// that is meant by one that is not there.
func (s *Site) Describe(problem model.Problem) string {
	group := appv1.GroupName
	if s.IsGatewayAPI {
		group = gatewayv1.GroupName
	}
	document, field := find(s.documents, group, problem)
	if document == nil {
		return s.Name() + ": " + problem.Message
	}
	return document.At(field) + ": " + s.Name() + ": " + problem.Message + meant(s.documents, *document, field)
}

// find returns the document and the field that a problem is about, nil if the files do not have it. A Gateway is of a
// group.
func find(documents []Document, group string, problem model.Problem) (*Document, string) {
	of := problem.Origin
	for i := range documents {
		d := &documents[i]
		kind := d.Object.GroupVersionKind()
		if kind.Kind != of.Kind || d.Object.GetNamespace() != of.Namespace || d.Object.GetName() != of.Name || kind.Kind == "Gateway" && kind.Group != group {
			continue
		}
		part := ""
		switch {
		case of.Kind == "Gateway" && problem.Route != "":
			part = named(d, problem.Route, "routes", "tcpRoutes", "tlsRoutes")
		case problem.Listener != "":
			part = named(d, problem.Listener, "listeners")
		}
		switch {
		case problem.Field != "":
			part = "spec" + part + "." + problem.Field
		case part != "":
			part = "spec" + part
		}
		return d, part
	}
	return nil, ""
}

// place returns the file and the line that a problem of an object of the Gateway API is about, with a colon; "" if
// nobody knows.
func place(documents []Document, problem model.Problem) string {
	if document, field := find(documents, gatewayv1.GroupName, problem); document != nil {
		return document.At(field) + ": "
	}
	return ""
}

// named returns the element with a name of a list in the spec, "" if there is none.
func named(d *Document, name string, lists ...string) string {
	for _, list := range lists {
		for i, element := range Maps(d.value("spec." + list)) {
			if element["name"] == name {
				return fmt.Sprintf(".%s[%d]", list, i)
			}
		}
	}
	return ""
}

// meant tells which RouteFilter or GatewayConfig is meant by the name of one in a field that the files lack, "" if none
// is.
func meant(documents []Document, d Document, field string) string {
	ref, ok := d.value(field).(map[string]any)
	if extension, isFilter := ref["extensionRef"].(map[string]any); isFilter {
		ref = extension
	}
	var names []string
	for i := range documents {
		if object := documents[i].Object; ok && object.GetKind() == ref["kind"] && object.GetNamespace() == d.Object.GetNamespace() {
			names = append(names, object.GetName())
		}
	}
	name, _ := ref["name"].(string)
	if near := Similar(name, names); near != "" && !slices.Contains(names, name) {
		return fmt.Sprintf(": do you mean %s?", near)
	}
	return ""
}

// problem returns a problem of a field of the spec.
func (d Document) problem(field, message string) model.Problem {
	origin := model.Origin{Kind: d.Object.GetKind(), Namespace: d.Object.GetNamespace(), Name: d.Object.GetName()}
	return model.Problem{Origin: origin, Field: field, Message: message}
}

// wants returns the message as a problem of the first field that refers to a Service.
func wants(documents []Document, namespace, name, message string) model.Problem {
	problem := model.Problem{Message: message}
	for i := range documents {
		d := &documents[i]
		walk(d.Object.Object["spec"], "", func(path, text string) {
			isReference := strings.Contains(path, "ackendRefs[") || strings.Contains(path, "backends[") // also of mirrors
			if problem.Field == "" && text == name && isReference && strings.HasSuffix(path, ".name") && d.Object.GetNamespace() == namespace {
				problem = d.problem(strings.TrimPrefix(path, "."), message)
			}
		})
	}
	return problem
}

// stray returns why a route has no effect: its parents are not in the files.
func (c *contents) stray(route gatewayapi.Object, parents map[gatewayapi.Parent]bool) model.Problem {
	problem := model.Problem{Origin: model.Origin{Kind: route.Kind, Namespace: route.Namespace, Name: route.Name}, Field: "parentRefs"}
	problem.Message = c.whyStray(route, parents)
	return problem
}

func (c *contents) whyStray(route gatewayapi.Object, parents map[gatewayapi.Parent]bool) string {
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
