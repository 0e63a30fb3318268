package ingress

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	appv1 "gateway/api/app/v1"
)

const (
	authNote = "the Service gets the headers Authorization and Cookie: name others in requestHeaders\n" +
		"the Service gets X-Forwarded-Method and -Uri in place of X-Original-Method and -URL\n" +
		"clients get the Service's answers of 3xx and 4xx, and 503 if there is none"
	authURL      = "only a Service can be asked, as http://NAME.NAMESPACE.svc:PORT/PATH, or https://$host/PATH where an Ingress of the host has the path"
	authHeaders  = "the backend gets up to 16 headers, whose names have letters, digits and \"-\" and do not frame a message"
	authSignIn   = "clients are not led there: have the Service answer with a redirect, which oauth2-proxy does at / with --upstream=static://202"
	authRedirect = "the Service gets no X-Auth-Request-Redirect: it has X-Forwarded-Uri"
	authCookies  = "cookies of the Service reach clients with answers of any status"
	passwordNote = "only users with hashes of bcrypt or SHA-512 ($6$) can log in, such as those of htpasswd -B. Without any, clients get 503, and not 401\n" +
		"the backend does not get the header Authorization"
	passwordSecret = "passwords are in a Secret of the same namespace, with lines of htpasswd under the key auth (auth-secret-type auth-file)"
	passwordCopy   = "copy Secret %s/%s to namespace %s, that of the Gateway, as %s"
	authPolicy     = "nobody is asked who the client is: let the backend do it, or a proxy such as oauth2-proxy before it"
)

// mostAuthHeaders is the limit for headers of an answer that the backend gets.
const mostAuthHeaders = 16

// authRealm matches valid realms of a BasicAuth.
var authRealm = regexp.MustCompile(`^[ !#-\[\]-~]*$`)

var authPath = regexp.MustCompile(`^/[A-Za-z0-9._~!&'()*+,;=:@%/?-]*$`)

// setAuth lets a Service decide about requests.
func setAuth(s *settings, value string) string {
	service, port, path, ok := serviceOf(value)
	if url := atHost.FindStringSubmatch(value); url != nil {
		service, port, path, ok = s.behind(url[1])
	}
	if !ok {
		return s.close(s.annotation, authURL)
	}
	if !s.mayRefer(service) {
		return s.close(s.annotation, fmt.Sprintf(noGrant, service.Namespace, s.ingress.Namespace, service.Name))
	}
	auth := &appv1.ExternalAuth{BackendRef: appv1.ExternalAuthBackendRef{Name: service.Name, Port: port}, Path: path, Timeout: appv1.Duration(*seconds(60))}
	for _, name := range s.list("auth-response-headers", "") {
		if !isMatchableHeader(name) || !isChangeableHeader(name) || len(auth.ResponseHeaders) == mostAuthHeaders {
			// A client could send the header in place of the Service.
			return s.close(s.annotation, fmt.Sprintf("%s: %s", name, authHeaders))
		}
		auth.ResponseHeaders = append(auth.ResponseHeaders, appv1.HeaderName(name))
	}
	if s.values["auth-cache-key"] != "" {
		auth.Cache, _ = s.authCache()
		sendKey(auth)
	}
	s.auth, s.authNamespace = auth, service.Namespace
	s.guardsOf = append(s.guardsOf, s.annotation)
	return authNote
}

// partsOfAuth are those that nginx reads beside auth-url alone.
var partsOfAuth = strings.Fields("auth-method auth-signin auth-signin-redirect-param auth-response-headers auth-snippet auth-proxy-set-headers " +
	"auth-request-redirect auth-always-set-cookie auth-cache-key auth-cache-duration")

// setAuthMethod takes the method by which the Service is asked in any case.
func setAuthMethod(s *settings, value string) string {
	if value == "GET" {
		return part("auth-url")(s, value)
	}
	return s.close(s.annotation, "the Service is asked by GET")
}

// serviceOf returns the Service that a URL leads to, its port, and the path. nginx resolves names by DNS, in full.
func serviceOf(text string) (service types.NamespacedName, number int32, path string, ok bool) {
	target, err := url.Parse(text)
	if err != nil || target.Scheme != "http" || target.User != nil || strings.ContainsAny(text, "$#") {
		return service, 0, "", false
	}
	labels := strings.Split(strings.TrimSuffix(target.Hostname(), "."), ".")
	port, err := strconv.ParseUint(cmp.Or(target.Port(), "80"), 10, 16)
	if err != nil || port == 0 || len(labels) < 3 || labels[2] != "svc" || !isServiceName(labels[0]) || len(validation.IsDNS1123Label(labels[1])) > 0 {
		return service, 0, "", false
	}
	path = cmp.Or(target.EscapedPath(), "/")
	if target.RawQuery != "" {
		path += "?" + target.RawQuery
	}
	service = types.NamespacedName{Namespace: labels[1], Name: labels[0]}
	return service, int32(port), path, isAuthPath(path)
}

func isAuthPath(path string) bool { return len(path) <= 1024 && authPath.MatchString(path) }

// atHost matches a URL of the request's host.
var atHost = regexp.MustCompile(`^https?://\$(?:http_|best_http_)?host(/.*)$`)

// behind returns the Service that a path of the request's host leads to, if it is the same for all hosts of the
// Ingress, and gets the path as it is.
func (s *settings) behind(path string) (service types.NamespacedName, port int32, same string, ok bool) {
	only, _, _ := strings.Cut(path, "?")
	for i, rule := range s.ingress.Spec.Rules {
		other, number := s.leadsTo(rule.Host, only)
		if i > 0 && (other != service || number != port) {
			return service, 0, "", false
		}
		service, port = other, number
	}
	return service, port, path, port > 0 && isAuthPath(path)
}

// changesQuestions reports whether the Service of an Ingress gets other paths, or the question would be asked about
// itself.
func (s *settings) changesQuestions(ingress *networkingv1.Ingress) bool {
	value := func(name string) string { return ingress.Annotations[Prefix+name] }
	isGlobal := s.configuration.defaults["auth-url"] != "" && !equalValues(value("enable-global-auth"), "false")
	return value("rewrite-target") != "" || equalValues(value("use-regex"), "true") || value("auth-url") != "" || isGlobal
}

// leadsTo returns the port of a Service that a path of a host leads to, 0 if unknown. The longest path counts.
func (s *settings) leadsTo(host, path string) (service types.NamespacedName, port int32) {
	longest := -1
	for _, ingress := range s.Ingresses {
		if isCanary(ingress) || s.classOf(ingress) != s.classOf(s.ingress) {
			continue
		}
		for _, rule := range ingress.Spec.Rules {
			if !strings.EqualFold(rule.Host, host) || rule.HTTP == nil {
				continue
			}
			for _, one := range rule.HTTP.Paths {
				isExact := ptr.Deref(one.PathType, networkingv1.PathTypePrefix) == networkingv1.PathTypeExact
				beginning := strings.TrimSuffix(one.Path, "/")
				if isExact && one.Path != path || path != beginning && !strings.HasPrefix(path, beginning+"/") || len(one.Path) < longest {
					continue
				}
				isTwice := len(one.Path) == longest
				longest, service, port = len(one.Path), types.NamespacedName{}, 0
				if one.Backend.Service != nil && !s.changesQuestions(ingress) && !isTwice {
					service = types.NamespacedName{Namespace: ingress.Namespace, Name: one.Backend.Service.Name}
					port = s.portOf(ingress.Namespace, one.Backend.Service)
				}
			}
		}
	}
	return service, port
}

// setPasswords asks for users and passwords of a Secret, if the Secret exists.
func setPasswords(s *settings, value string) string {
	if !strings.EqualFold(value, "basic") {
		return s.close(s.annotation, authPolicy)
	}
	secret := s.values["auth-secret"]
	if namespace, name, ok := strings.Cut(secret, "/"); ok && namespace == s.ingress.Namespace {
		secret = name
	}
	from := secret
	if s.ingress.Namespace != s.Namespace { // namespaces may have Secrets of the same name
		secret = s.ingress.Namespace + "." + secret
	}
	if kind := s.values["auth-secret-type"]; len(validation.IsDNS1123Subdomain(secret)) > 0 || kind != "" && kind != "auth-file" {
		return s.close(s.annotation, passwordSecret)
	}
	s.basic = &appv1.BasicAuth{SecretRef: appv1.ObjectReference{Name: secret}}
	s.guardsOf = append(s.guardsOf, s.annotation)
	if realm := s.values["auth-realm"]; len(realm) <= 64 && authRealm.MatchString(realm) {
		s.basic.Realm = realm
	}
	if secret != from {
		return passwordNote + "\n" + fmt.Sprintf(passwordCopy, s.ingress.Namespace, from, s.Namespace, secret)
	}
	return passwordNote
}

// beside handles an annotation that is lost beside another one, unless it is false.
func beside(other, text string) setter {
	return func(s *settings, value string) string {
		if note := part(other)(s, value); note != "" {
			return note
		}
		return either(equalValues(value, "false"), "", text)
	}
}
