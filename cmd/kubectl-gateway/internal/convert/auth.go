package convert

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	appv1 "gateway/api/app/v1"
)

const (
	authNote = "the Service gets the headers Authorization and Cookie, and X-Forwarded-Method and -Uri in place of X-Original-Method and -URL: " +
		"name others in requestHeaders; clients get its answers of 3xx and 4xx, and 503 if there is none"
	authURL      = "only a Service of the same namespace can be asked, as http://NAME.NAMESPACE.svc:PORT/PATH"
	authHeaders  = "a Service's answer may have up to 16 headers for the backend, whose names have letters, digits and \"-\" and do not frame a message"
	authSignIn   = "clients are not led there: they get the Service's answer. Have it answer with a redirect to where they sign in"
	authCache    = "answers are not kept: the Service is asked about each request"
	authReuse    = "connections to the Service are kept and shared"
	authCookies  = "cookies of the Service reach clients with answers of any status"
	passwordNote = "users whose hashes are neither of bcrypt nor of SHA-512 ($6$) cannot log in, such as those of htpasswd without -B: " +
		"see ResolvedRefs; the backend does not get the header Authorization"
	passwordSecret = "passwords are checked against a Secret of the same namespace, with lines of htpasswd under the key auth (auth-secret-type auth-file)"
	authPolicy     = "nobody is asked who the client is: let the backend do it, or a proxy such as oauth2-proxy before it"
)

// mostAuthHeaders is the limit for headers of an answer that the backend gets.
const mostAuthHeaders = 16

// authRealm matches valid realms of a BasicAuth.
var authRealm = regexp.MustCompile(`^[ !#-\[\]-~]*$`)

var authPath = regexp.MustCompile(`^/[A-Za-z0-9._~!&'()*+,;=:@%/?-]*$`)

// setAuth lets a Service decide about requests.
func setAuth(s *settings, value string) string {
	ref, path, ok := authService(value, s.ingress.Namespace)
	if !ok {
		return s.close(s.annotation, authURL)
	}
	auth := &appv1.ExternalAuth{BackendRef: ref, Path: path}
	for _, name := range s.list("auth-response-headers", "") {
		if !isMatchableHeader(name) || !isChangeableHeader(name) || len(auth.ResponseHeaders) == mostAuthHeaders {
			// A client could send the header in place of the Service.
			return s.close(s.annotation, fmt.Sprintf("%s: %s", name, authHeaders))
		}
		auth.ResponseHeaders = append(auth.ResponseHeaders, appv1.HeaderName(name))
	}
	s.auth = auth
	s.guardsOf = append(s.guardsOf, s.annotation)
	return authNote
}

// authService returns the Service that a URL leads to, and the path. nginx resolves names by DNS, in full.
func authService(text, namespace string) (ref appv1.ExternalAuthBackendRef, path string, ok bool) {
	target, err := url.Parse(text)
	if err != nil || target.Scheme != "http" || target.User != nil || strings.ContainsAny(text, "$#") {
		return ref, "", false
	}
	labels := strings.Split(strings.TrimSuffix(target.Hostname(), "."), ".")
	port, err := strconv.ParseUint(cmp.Or(target.Port(), "80"), 10, 16)
	if err != nil || port == 0 || len(labels) < 3 || labels[1] != namespace || labels[2] != "svc" || !isServiceName(labels[0]) {
		return ref, "", false
	}
	path = cmp.Or(target.EscapedPath(), "/")
	if target.RawQuery != "" {
		path += "?" + target.RawQuery
	}
	return appv1.ExternalAuthBackendRef{Name: labels[0], Port: int32(port)}, path, len(path) <= 1024 && authPath.MatchString(path)
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
	if kind := s.values["auth-secret-type"]; len(validation.IsDNS1123Subdomain(secret)) > 0 || kind != "" && kind != "auth-file" {
		return s.close(s.annotation, passwordSecret)
	}
	s.basic = &appv1.BasicAuth{SecretRef: appv1.ObjectReference{Name: secret}}
	s.guardsOf = append(s.guardsOf, s.annotation)
	if realm := s.values["auth-realm"]; len(realm) <= 64 && authRealm.MatchString(realm) {
		s.basic.Realm = realm
	}
	return passwordNote
}

// ofAuth handles an annotation about the Service that is asked.
func ofAuth(text string, harmless ...string) annotation {
	return func(s *settings, value string) string {
		if note := part("auth-url")(s, value); note != "" {
			return note
		}
		return listed(text, harmless...)(s, value)
	}
}
