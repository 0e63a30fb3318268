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

// entry is a controller's report about an object at a Gateway.
type entry struct {
	ParentRef      gatewayv1.ParentReference `json:"parentRef"`
	ControllerName string                    `json:"controllerName"`
	Conditions     []metav1.Condition        `json:"conditions"`
}

// State is the operator's report about the latest generation of an object.
type State struct {
	// Programmed is True if every proxy of every Gateway runs it, Unknown as long as the operator has not looked at it.
	Programmed metav1.ConditionStatus
	// Why is why not every proxy runs it; "" if all do.
	Why string
	// Problems are its problems all the same: references that cannot be used, and rules without requests.
	Problems []string
	// Parents are what the object names as the Gateways that the operator looked at.
	Parents []gatewayv1.ParentReference
}

// Look returns the state of an object.
func Look(object *unstructured.Unstructured) (State, error) {
	content, _, err := unstructured.NestedMap(object.Object, "status")
	if err != nil {
		return State{}, err
	}
	var s status
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &s); err != nil {
		return State{}, fmt.Errorf("failed to read the status: %w", err)
	}
	state := State{Programmed: metav1.ConditionTrue}
	var all [][]metav1.Condition
	if at := statuses[object.GroupVersionKind().GroupKind()]; at == "" {
		all = append(all, s.Conditions)
	} else {
		for _, e := range slices.Concat(s.Parents, s.Ancestors) {
			if e.ControllerName == string(gatewayapi.ControllerName) {
				all = append(all, e.Conditions)
				state.Parents = append(state.Parents, e.ParentRef)
			}
		}
	}
	if len(all) == 0 || len(all[0]) == 0 {
		state.Programmed, state.Why = metav1.ConditionUnknown, "no operator has looked at it"
		return state, nil
	}
	var why []string
	for _, conditions := range all {
		programmed, problem := problemOf(conditions, object.GetGeneration())
		if programmed != metav1.ConditionTrue && state.Programmed != metav1.ConditionFalse {
			state.Programmed = programmed
		}
		why = appendNew(why, problem)
		for _, c := range conditions {
			isBad := c.Type == appv1.ConditionResolvedRefs && c.Status == metav1.ConditionFalse || c.Type == appv1.ConditionUnreachableRules && c.Status == metav1.ConditionTrue
			if isBad && c.ObservedGeneration == object.GetGeneration() {
				state.Problems = appendNew(state.Problems, c.Message)
			}
		}
	}
	state.Why = strings.Join(why, "; ")
	return state, nil
}

// appendNew appends a text that is not empty and not there yet.
func appendNew(all []string, text string) []string {
	if text == "" || slices.Contains(all, text) {
		return all
	}
	return append(all, text)
}

// problemOf returns whether the generation is programmed by conditions, and why not. It adds the reason of parts that
// are refused.
func problemOf(conditions []metav1.Condition, generation int64) (metav1.ConditionStatus, string) {
	programmed := meta.FindStatusCondition(conditions, appv1.ConditionProgrammed)
	if programmed != nil && programmed.Status == metav1.ConditionTrue && programmed.ObservedGeneration == generation {
		return metav1.ConditionTrue, ""
	}
	var messages []string
	for _, kind := range []string{appv1.ConditionAccepted, appv1.ConditionResolvedRefs, appv1.ConditionProgrammed} {
		c := meta.FindStatusCondition(conditions, kind)
		switch {
		case c == nil:
		case c.ObservedGeneration != generation:
			return metav1.ConditionUnknown, fmt.Sprintf("the operator has not looked at generation %d yet", generation)
		case c.Status != metav1.ConditionTrue:
			messages = appendNew(messages, c.Message)
		}
	}
	if len(messages) == 0 {
		return metav1.ConditionUnknown, fmt.Sprintf("there is no condition %s yet", appv1.ConditionProgrammed)
	}
	return metav1.ConditionFalse, strings.Join(messages, "; ")
}
