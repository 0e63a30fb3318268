package ingress

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// otherAnnotations are annotations of other programs, by name or by a beginning that ends with "/" or ".". "" is for
// those that are not about requests.
var otherAnnotations = map[string]string{
	"kubectl.kubernetes.io/":      "",
	"kubernetes.io/ingress.class": "",
	allowHTTP:                     "",
	"meta.helm.sh/":               "",
	"argocd.argoproj.io/":         "",
	"cert-manager.io/":            certManager,
	"acme.cert-manager.io/":       certManager,
	"kubernetes.io/tls-acme":      certManager,
	"external-dns.":               "external-dns takes the hostnames of Ingresses: have it read those of HTTPRoutes, with --source=gateway-httproute --gateway-listener-sets",
}

// allowHTTP is GKE's, with the value "false" for an Ingress without HTTP.
const (
	allowHTTP = "kubernetes.io/ingress.allow-http"
	onlyHTTPS = "HTTP is served too: remove the parentRef http from the routes of its hosts"
)

// wordsOfAccess are in names of annotations that may keep clients out, whatever program reads them. wordsOfControllers
// are such words for annotations of controllers. They stand for their plurals, too.
var (
	wordsOfAccess = words(`access acl allow allowed allowlist auth authenticate authentication authn authorization authorize authz basicauth
		blacklist block blocked blocklist captcha cidr denied deny denylist firewall forbid forbidden forwardauth geoip ipallowlist ipwhitelist jwt
		login mtls oauth oauth2 oidc password permission protect protected protection ratelimit restrict restricted restriction saml satisfy sso
		vpn waf whitelist`)
	wordsOfControllers = words(`action armor client condition filter group guard internal ip limit middleware plugin policy predicate private public
		range rate role rule scheme secret security snippet source token trust trusted user verify`)
)

func words(text string) map[string]bool {
	all := map[string]bool{}
	for word := range strings.FieldsSeq(text) {
		all[word], all[strings.TrimSuffix(word, "y")+either(strings.HasSuffix(word, "y"), "ies", "s")] = true, true
	}
	return all
}

// camelCase is where a word of several begins.
var camelCase = regexp.MustCompile(`([a-z0-9])([A-Z])`)

// hasWord reports whether a name has one of some words, as a whole.
func hasWord(name string, of map[string]bool) bool {
	name = strings.ToLower(camelCase.ReplaceAllString(name, "$1-$2"))
	return slices.ContainsFunc(strings.FieldsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }),
		func(word string) bool { return of[word] })
}

// carryOther returns the note for an annotation that is none of ingress-nginx's. nginx ignores it, so it closes the
// paths only if another program may keep clients out by it.
func (s *settings) carryOther(name string) string {
	text, isKnown := find(otherAnnotations, name)
	isOther := IsController(name)
	switch {
	case name == allowHTTP && !equalValues(s.ingress.Annotations[name], "true"):
		return s.close(name, onlyHTTPS)
	case isKnown:
		return text
	case s.mayKeepOut(name, s.classOf(s.ingress)):
		return s.close(name, either(isOther, otherController, unknown))
	}
	return either(isOther, otherController, unknown)
}

// mayKeepOut reports whether another program may keep clients out by an annotation of what a class is for. Whatever
// controller serves the Ingresses of another class than nginx's goes by its own.
func (t *translator) mayKeepOut(annotation, class string) bool {
	return hasWord(annotation, wordsOfAccess) || IsController(annotation) && (hasWord(annotation, wordsOfControllers) || !t.isController(class))
}

const unknown = "it is not known, and not carried over"

const otherController = "it is for another controller"

const certManager = "cert-manager makes the certificate for the Ingress, and deletes it with the Ingress: make a Certificate for the Secret before that"

// controllers begin the annotations of the controllers that Ingresses and routes may be for, beside the domain
// ingress.kubernetes.io. Any annotation of theirs may keep clients out.
var controllers = []string{
	"haproxy.org/", "haproxy.com/", "haproxy-ingress.github.io/", "konghq.com/", "nginx.org/", "nginx.com/", "projectcontour.io/",
	"contour.heptio.com/", "getambassador.io/", "k8s.apisix.apache.org/", "higress.io/", "networking.gke.io/", "cloud.google.com/", "zalando.org/",
	"haproxy.router.openshift.io/", "route.openshift.io/", "k8s.ngrok.com/", "ingress.cilium.io/", "ingress.citrix.com/", "ingress.bluemix.net/",
	"virtual-server.f5.com/", "gateway.envoyproxy.io/", "gateway.nginx.org/", "kuadrant.io/", "networking.istio.io/", "gateway.k8s.aws/",
}

// IsController reports whether an annotation is for a controller.
func IsController(annotation string) bool {
	domain, _, _ := strings.Cut(annotation, "/")
	return domain == "ingress.kubernetes.io" || strings.HasSuffix(domain, ".ingress.kubernetes.io") ||
		slices.ContainsFunc(controllers, func(prefix string) bool { return strings.HasPrefix(annotation, prefix) })
}
