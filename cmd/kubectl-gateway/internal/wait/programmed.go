package wait

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/source/gatewayapi"
)

// statuses are the kinds with a condition Programmed, and where their status has it: the field with an entry for each
// Gateway, or "" for one list of conditions.
var statuses = map[schema.GroupKind]string{
	{Group: appv1.GroupName, Kind: "Gateway"}:         "",
	{Group: appv1.GroupName, Kind: "BackendPolicy"}:   "ancestors",
	{Group: gatewayv1.GroupName, Kind: "Gateway"}:     "",
	{Group: gatewayv1.GroupName, Kind: "ListenerSet"}: "",
	{Group: gatewayv1.GroupName, Kind: "HTTPRoute"}:   "parents",
	{Group: gatewayv1.GroupName, Kind: "GRPCRoute"}:   "parents",
	{Group: gatewayv1.GroupName, Kind: "TLSRoute"}:    "parents",
	{Group: gatewayv1.GroupName, Kind: "TCPRoute"}:    "parents",
}

// IsFor reports whether objects of a kind have the condition Programmed.
func IsFor(kind schema.GroupKind) bool {
	_, ok := statuses[kind]
	return ok
}

// status is the part of a status that matters here, of all kinds.
type status struct {
	Conditions []metav1.Condition `json:"conditions"`
	Parents    []entry            `json:"parents"`
	Ancestors  []entry            `json:"ancestors"`
}

// entry is what a controller says of an object at a Gateway.
type entry struct {
	ControllerName string             `json:"controllerName"`
	Conditions     []metav1.Condition `json:"conditions"`
}

// unprogrammed returns why not every proxy runs the latest generation of an object, "" if all do.
func unprogrammed(object *unstructured.Unstructured) (string, error) {
	content, _, err := unstructured.NestedMap(object.Object, "status")
	if err != nil {
		return "", err
	}
	var s status
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &s); err != nil {
		return "", fmt.Errorf("failed to read the status: %w", err)
	}
	var all [][]metav1.Condition
	if at := statuses[object.GroupVersionKind().GroupKind()]; at == "" {
		all = append(all, s.Conditions)
	} else {
		for _, e := range slices.Concat(s.Parents, s.Ancestors) {
			if e.ControllerName == string(gatewayapi.ControllerName) {
				all = append(all, e.Conditions)
			}
		}
	}
	if len(all) == 0 || len(all[0]) == 0 {
		return "no operator has looked at it", nil
	}
	var why []string
	for _, conditions := range all {
		if problem := problemOf(conditions, object.GetGeneration()); problem != "" && !slices.Contains(why, problem) {
			why = append(why, problem)
		}
	}
	return strings.Join(why, "; "), nil
}

// problemOf returns why conditions do not say that the generation is programmed, "" if they do. What is refused for
// another reason is said with it.
func problemOf(conditions []metav1.Condition, generation int64) string {
	programmed := meta.FindStatusCondition(conditions, appv1.ConditionProgrammed)
	if programmed != nil && programmed.Status == metav1.ConditionTrue && programmed.ObservedGeneration == generation {
		return ""
	}
	var messages []string
	for _, kind := range []string{appv1.ConditionAccepted, appv1.ConditionResolvedRefs, appv1.ConditionProgrammed} {
		c := meta.FindStatusCondition(conditions, kind)
		switch {
		case c == nil:
		case c.ObservedGeneration != generation:
			return fmt.Sprintf("the operator has not looked at generation %d yet", generation)
		case c.Status != metav1.ConditionTrue && !slices.Contains(messages, c.Message):
			messages = append(messages, c.Message)
		}
	}
	if len(messages) == 0 {
		return fmt.Sprintf("there is no condition %s yet", appv1.ConditionProgrammed)
	}
	return strings.Join(messages, "; ")
}
