// Package admission decides without a cluster whether an API server admits an object of this project or of the Gateway
// API. It contains the CRDs, and runs the API server's own code for custom resources on them.
package admission

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	schemavalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/apisx/v1alpha1"
	"sigs.k8s.io/yaml"

	appv1 "gateway/api/app/v1"
	"gateway/artifacts"
)

// crd is a CRD's version and schema for a kind.
type crd struct {
	structural *structuralschema.Structural
	schema     schemavalidation.SchemaValidator
	// rules compiles the CEL rules, which takes longer than all else.
	rules func() *cel.Validator
}

// definitions read the CRD of each kind when it is first needed.
var definitions = map[schema.GroupKind]func() (*crd, error){}

func init() {
	for _, kind := range []string{"Gateway", "GatewayConfig", "RouteFilter", "BackendPolicy"} {
		definitions[schema.GroupKind{Group: appv1.GroupName, Kind: kind}] = sync.OnceValues(func() (*crd, error) { return readCRD(kind) })
	}
	for group, kinds := range gatewayAPIKinds {
		for _, kind := range kinds {
			definitions[schema.GroupKind{Group: group, Kind: kind}] = sync.OnceValues(func() (*crd, error) { return readGatewayAPI(kind) })
		}
	}
}

// gatewayAPIKinds are the kinds of the Gateway API that have a CRD here, by group.
var gatewayAPIKinds = map[string][]string{
	gatewayv1.GroupName: {
		"BackendTLSPolicy", "GRPCRoute", "Gateway", "GatewayClass", "HTTPRoute", "ListenerSet", "ReferenceGrant", "TCPRoute", "TLSRoute", "UDPRoute",
	},
	v1alpha1.GroupName: {"XTelemetryPolicy"},
}

// gatewayAPI has the schemas of the Gateway API's experimental channel, which has all fields, by kind: without
// descriptions and status.
//
//go:embed gatewayapi.json
var gatewayAPI []byte

func readGatewayAPI(kind string) (*crd, error) {
	var schemas map[string]json.RawMessage
	source := &apiextensionsv1.JSONSchemaProps{}
	if err := errors.Join(json.Unmarshal(gatewayAPI, &schemas), json.Unmarshal(schemas[kind], source)); err != nil {
		return nil, fmt.Errorf("failed to read the schema of %s: %w", kind, err)
	}
	return compile(source)
}

func readCRD(kind string) (*crd, error) {
	definitions, err := Definitions()
	if err != nil {
		return nil, err
	}
	for _, definition := range definitions {
		if definition.Spec.Names.Kind == kind {
			return compile(schemaOf(definition, appv1.SchemeGroupVersion.Version))
		}
	}
	return nil, fmt.Errorf("there is no CustomResourceDefinition of %s (%s)", kind, appv1.SchemeGroupVersion)
}

// Definitions returns the CRDs that this plugin has in it.
func Definitions() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	files, err := fs.Glob(artifacts.CRDs, "crd/*.yaml")
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, file := range files {
		content, failure := artifacts.CRDs.ReadFile(file)
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err = errors.Join(err, failure, yaml.Unmarshal(content, definition)); err != nil {
			return nil, fmt.Errorf("failed to read %s: %w", file, err)
		}
		all = append(all, definition)
	}
	return all, err
}

// schemaOf returns the schema of a version, an empty one if there is no such version.
func schemaOf(definition *apiextensionsv1.CustomResourceDefinition, name string) *apiextensionsv1.JSONSchemaProps {
	for _, version := range definition.Spec.Versions {
		if version.Name == name {
			return version.Schema.OpenAPIV3Schema
		}
	}
	return &apiextensionsv1.JSONSchemaProps{}
}

func compile(source *apiextensionsv1.JSONSchemaProps) (*crd, error) {
	props := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(source, props, nil); err != nil {
		return nil, err
	}
	structural, err := structuralschema.NewStructural(props)
	if err != nil {
		return nil, err
	}
	validator, _, err := schemavalidation.NewSchemaValidator(props)
	if err != nil {
		return nil, err
	}
	rules := sync.OnceValue(func() *cel.Validator { return cel.NewValidator(structural, true, celconfig.PerCallLimit) })
	return &crd{structural: structural, schema: validator, rules: rules}, nil
}

// Refusal is why the API server refuses an object.
type Refusal struct {
	// Problems is never empty.
	Problems []Problem
}

// Problem is what the API server refuses of an object.
type Problem struct {
	// Field is the field, such as spec.listeners[0].port. Text is what the API server says, which names it, too.
	Field, Text string
	// Type is the kind of the problem, FieldUnknown for a field that is not there.
	Type field.ErrorType
}

// FieldUnknown is the type of problems about fields that the schema lacks.
const FieldUnknown field.ErrorType = "FieldValueUnknown"

func (r *Refusal) Error() string {
	texts := make([]string, len(r.Problems))
	for i := range r.Problems {
		texts[i] = r.Problems[i].Text
	}
	return strings.Join(texts, ", ")
}

// Knows reports whether there is a CRD of a kind.
func Knows(kind schema.GroupKind) bool { return definitions[kind] != nil }

// Admit sets the defaults of an object, as the API server does at its creation, and returns a Refusal if the API server
// would refuse it. Unknown fields are refused, as kubectl does. The status and the version are not checked.
func Admit(object *unstructured.Unstructured) error {
	definition, ok := definitions[object.GroupVersionKind().GroupKind()]
	if !ok {
		return fmt.Errorf("there is no CRD of %s", object.GetKind())
	}
	c, err := definition()
	if err != nil {
		return fmt.Errorf("failed to read the CRD: %w", err)
	}
	status, hasStatus := object.Object["status"]
	delete(object.Object, "status")
	unknown := pruning.PruneWithOptions(object.Object, c.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	defaulting.PruneNonNullableNullsWithoutDefaults(object.Object, c.structural)
	defaulting.Default(object.Object, c.structural)
	errs := c.validate(object)
	if hasStatus {
		object.Object["status"] = status
	}
	var problems []Problem
	for _, path := range unknown {
		problems = append(problems, Problem{path, fmt.Sprintf("unknown field %q", path), FieldUnknown})
	}
	// They come in the order of maps.
	slices.SortFunc(errs, func(a, b *field.Error) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Error(), b.Error()))
	})
	for _, err := range errs {
		where := err.Field
		if where == "metadata" {
			where = "metadata.name" // which rules of CRDs cannot name
		}
		problems = append(problems, Problem{where, err.Error(), err.Type})
	}
	if len(problems) == 0 {
		return nil
	}
	return &Refusal{problems}
}

// validate checks in the order of the API server. CEL rules are left out if the object does not have the form that they
// expect.
func (c *crd) validate(object *unstructured.Unstructured) field.ErrorList {
	inNamespace := object.GetKind() != "GatewayClass"
	errs := validation.ValidateObjectMetaAccessor(object, inNamespace, validation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, schemavalidation.ValidateCustomResource(nil, object.Object, c.schema)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, c.structural, object.Object)...)
	blocking := []field.ErrorType{
		field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid,
	}
	if slices.ContainsFunc(errs, func(err *field.Error) bool { return slices.Contains(blocking, err.Type) }) {
		return errs
	}
	broken, _ := c.rules().Validate(context.Background(), nil, c.structural, object.Object, nil, celconfig.RuntimeCELCostBudget)
	return append(errs, broken...)
}
