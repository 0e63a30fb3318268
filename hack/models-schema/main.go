// models-schema prints the OpenAPI schema of the API types as JSON: what applyconfiguration-gen needs to generate the
// Extract functions and what makes fake clientsets understand server-side apply.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// definitions are what openapi-gen made of the API types. hack/update-codegen.sh adds a file that sets it.
var definitions common.GetOpenAPIDefinitions

func main() {
	if definitions == nil {
		fmt.Fprintln(os.Stderr, "models-schema: there are no definitions: run hack/update-codegen.sh")
		os.Exit(1)
	}
	swagger := spec.Swagger{SwaggerProps: spec.SwaggerProps{
		Swagger:     "2.0",
		Info:        &spec.Info{InfoProps: spec.InfoProps{Title: "gateway", Version: "v1"}},
		Paths:       &spec.Paths{},
		Definitions: spec.Definitions{},
	}}
	ref := func(name string) spec.Ref {
		// Of the types of k8s.io/api there are no definitions: what a fake clientset applies of them is merged by its looks.
		if name = friendlyName(name); swagger.Definitions[name].Type == nil {
			swagger.Definitions[name] = spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}}}
		}
		return spec.MustCreateRef("#/definitions/" + name)
	}
	for name, definition := range definitions(ref) {
		// The version 2 form of a definition that differs between OpenAPI versions rides along as an extension.
		if v2, ok := definition.Schema.Extensions[common.ExtensionV2Schema].(spec.Schema); ok {
			definition.Schema = v2
		}
		swagger.Definitions[friendlyName(name)] = definition.Schema
	}
	if err := json.NewEncoder(os.Stdout).Encode(swagger); err != nil {
		fmt.Fprintln(os.Stderr, "models-schema:", err)
		os.Exit(1)
	}
}

// friendlyName turns the Go name of one of our types into the name applyconfiguration-gen looks it up by. Upstream's
// types already have theirs.
func friendlyName(name string) string {
	if strings.Contains(name, "/") {
		return util.ToRESTFriendlyName(name)
	}
	return name
}
