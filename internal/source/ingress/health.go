package ingress

import (
	"regexp"
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

const healthCheck = "200 for all names that nobody has, such as /healthz, where load balancers ask."

// setHealthPath takes what is a flag of nginx's controller. There, it is /healthz by default.
func setHealthPath(s *settings, value string) string {
	if !isMatch(pathMatch{exact, value}) {
		return "it is no path"
	}
	s.healthPath = value
	return ""
}

// addHealth answers load balancers, which ask for no name, unless an Ingress has the path.
func (s *site) addHealth() {
	h := s.byName[""]
	if h == nil {
		h = &host{}
	}
	if s.healthPath == "" || h.takes(s.healthPath) {
		return
	}
	_, parents := s.parents(h, s.Namespace)
	for _, g := range slices.Concat(s.gateways, s.earlier) {
		ref := s.parent("Gateway", g.name, s.Namespace, s.Namespace)
		ref.SectionName = new(gatewayv1.SectionName(portHTTP))
		parents = append(parents, ref)
	}
	s.addHTTPRoutes(s.Namespace, "health", parents, []string{""}, []rule{answer(pathMatch{exact, s.healthPath}, 200)})
}

// takes reports whether nginx passes requests for a path on to a location before it answers them itself.
func (h *host) takes(path string) bool {
	return slices.ContainsFunc(h.locations, func(l *location) bool {
		if !h.hasExpressions() || l.path == "/" {
			return l.path == path || l.path == path+"/"
		}
		expression, err := regexp.Compile("^(?i:" + l.path + ")")
		return err != nil || expression.MatchString(path)
	})
}
