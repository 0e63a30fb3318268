package ingress

import (
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	appv1 "gateway/api/app/v1"
)

const (
	withoutEndpoints = "no other Service answers when one has no endpoint: clients get 503"
	errorsNote       = "errors of the proxy itself, such as 503 without an endpoint, are not replaced\n" +
		"the status is that of the error, whatever the Service answers with\n" +
		"the Service gets no X-Namespace, X-Ingress-Name, X-Service-Name and X-Service-Port"
	errorsOther = "no Service answers in place of backends' errors: name one in the annotation default-backend"
	errorsPort  = "the port of Service %s is not known: give the Service too, or backends' errors are passed on"
)

// A ResponseOverride has as many parts, of which each has as many statuses.
const overrideParts, partStatuses = 8, 16

// setErrors has the Service of default-backend answer in place of errors of backends. nginx takes its first port.
func setErrors(s *settings, value string) string {
	name := s.values["default-backend"]
	switch {
	case s.bool("disable-proxy-intercept-errors", false):
		return ""
	case name == "":
		return errorsOther
	}
	service := s.Services[types.NamespacedName{Namespace: s.ingress.Namespace, Name: name}]
	if service == nil || len(service.Spec.Ports) == 0 {
		return fmt.Sprintf(errorsPort, name)
	}
	var statuses []appv1.BackendErrorStatus
	for _, text := range list(value) {
		status, err := strconv.Atoi(text)
		if err != nil || status < 400 || status > 599 || len(statuses) == overrideParts*partStatuses {
			s.noteAnnotation(s.annotation, fmt.Sprintf("answers with %s are passed on", text))
			continue
		}
		statuses = append(statuses, appv1.BackendErrorStatus(status))
	}
	slices.Sort(statuses)
	for chunk := range slices.Chunk(slices.Compact(statuses), partStatuses) {
		s.override = append(s.override, appv1.OverriddenResponse{
			Statuses: chunk, BackendRef: &appv1.ResponseOverrideBackendRef{Name: name, Port: service.Spec.Ports[0].Port},
		})
	}
	return errorsNote
}
