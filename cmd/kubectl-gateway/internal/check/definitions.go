package check

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gateway/cmd/kubectl-gateway/internal/admission"
	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/model"
)

const (
	applyDefinitions = "Apply the CRDs of this version: kubectl apply --server-side -f install.yaml"
	// maxFields is how many fields a difference names.
	maxFields = 4
)

// definitions compares the CRDs of the cluster with the CRDs of this plugin.
func definitions(ctx context.Context, clients cli.Clients, _ string) ([]Finding, error) {
	ours, err := admission.Definitions()
	if err != nil {
		return nil, fmt.Errorf("failed to read the CRDs of the plugin: %w", err)
	}
	client, err := clientset.NewForConfig(clients.Config)
	if err != nil {
		return nil, fmt.Errorf("failed to make a client for CRDs: %w", err)
	}
	var findings []Finding
	for _, definition := range ours {
		live, err := client.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, definition.Name, metav1.GetOptions{})
		about := "CRD " + definition.Name
		switch {
		case apierrors.IsNotFound(err):
			findings = append(findings, Finding{Level: Wrong, About: about, Says: "it is not installed", Do: applyDefinitions})
		case apierrors.IsForbidden(err):
			findings = append(findings, Finding{
				Level: Warning, About: about, Says: "not known whether it is current: you may not get CustomResourceDefinitions",
				Do: "Ask an administrator of the cluster.",
			})
		case err != nil:
			return nil, fmt.Errorf("failed to get CustomResourceDefinition %s: %w", definition.Name, err)
		default:
			findings = append(findings, compare(definition, live))
		}
	}
	return findings, nil
}

// compare reports how the cluster's CRD differs from this plugin's. Descriptions do not count.
func compare(ours, live *apiextensionsv1.CustomResourceDefinition) Finding {
	found := Finding{Level: OK, About: "CRD " + ours.Name, Says: "the same as this plugin has"}
	for _, condition := range live.Status.Conditions {
		if condition.Type == apiextensionsv1.Established && condition.Status != apiextensionsv1.ConditionTrue {
			found.Level, found.Says, found.Do = Wrong, "it is not in use: "+condition.Message, "See kubectl describe crd "+ours.Name
			return found
		}
	}
	lacks, has, same := differences(ours, live)
	newer := "Use the plugin of the version that the cluster runs: kubectl gateway version"
	switch {
	case len(lacks) > 0 && len(has) > 0:
		found.Level, found.Says, found.Do = Wrong, fmt.Sprintf("it is of another version: it lacks %s, and has %s", model.Some(lacks, maxFields), model.Some(has, maxFields)), applyDefinitions
	case len(lacks) > 0:
		found.Level, found.Says, found.Do = Wrong, "it is older than this plugin: it lacks "+model.Some(lacks, maxFields), applyDefinitions
	case len(has) > 0:
		found.Level, found.Says, found.Do = Warning, "it is newer than this plugin: it has "+model.Some(has, maxFields), newer
	case !same:
		found.Level, found.Says, found.Do = Warning, "it has the fields of this plugin's, with other rules", applyDefinitions
	}
	return found
}

// differences are the fields that the CRD of the cluster lacks, those that only it has, and whether the two say the
// same.
func differences(ours, live *apiextensionsv1.CustomResourceDefinition) (lacks, has []string, same bool) {
	same = true
	for _, version := range ours.Spec.Versions {
		i := slices.IndexFunc(live.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
			return v.Name == version.Name && v.Served
		})
		if i < 0 {
			lacks = append(lacks, "the version "+version.Name)
			continue
		}
		mine, theirs := rules(version), rules(live.Spec.Versions[i])
		lacks, has = append(lacks, missing(mine, theirs, "")...), append(has, missing(theirs, mine, "")...)
		same = same && reflect.DeepEqual(mine, theirs)
	}
	return lacks, has, same
}

// missing returns the fields of a schema that another lacks, sorted, without those below them.
func missing(from, in map[string]any, path string) (names []string) {
	mine, theirs := object(from["properties"]), object(in["properties"])
	for _, name := range slices.Sorted(maps.Keys(mine)) {
		below := strings.TrimPrefix(path+"."+name, ".")
		if theirs[name] == nil {
			names = append(names, below)
		} else {
			names = append(names, missing(object(mine[name]), object(theirs[name]), below)...)
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if from[key] != nil {
			names = append(names, missing(object(from[key]), object(in[key]), path)...)
		}
	}
	return names
}

func object(value any) map[string]any {
	object, _ := value.(map[string]any)
	return object
}

// rules returns a version's schema, without descriptions.
func rules(version apiextensionsv1.CustomResourceDefinitionVersion) map[string]any {
	content, _ := json.Marshal(version.Schema.OpenAPIV3Schema) // it has nothing that JSON cannot say
	var value any
	_ = json.Unmarshal(content, &value)
	return object(withoutDescriptions(value))
}

func withoutDescriptions(value any) any {
	switch value := value.(type) {
	case map[string]any:
		if _, isText := value["description"].(string); isText { // a field of that name is no text
			delete(value, "description")
		}
		for key := range value {
			value[key] = withoutDescriptions(value[key])
		}
	case []any:
		for i := range value {
			value[i] = withoutDescriptions(value[i])
		}
	}
	return value
}
