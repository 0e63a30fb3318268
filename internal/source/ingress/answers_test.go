package ingress

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
)

// leadsTo tells where a rule redirects to, "" if it does not.
func leadsTo(rule *flat) string {
	filter := rule.filter(func(f *gatewayv1.HTTPRouteFilter) bool { return f.RequestRedirect != nil })
	if filter == nil {
		return ""
	}
	to, port, path := filter.RequestRedirect, "", ""
	if to.Port != nil {
		port = fmt.Sprint(":", *to.Port)
	}
	if to.Path != nil {
		path = *to.Path.ReplaceFullPath
	}
	return fmt.Sprintf("%d %s//%s%s%s", *to.StatusCode, ptr.Deref(to.Scheme, ""), ptr.Deref(to.Hostname, ""), port, path)
}

// TestRedirects has what nginx answers with.
func TestRedirects(t *testing.T) {
	for _, test := range []struct {
		name, path, annotations string
		want                    []string
	}{
		{"the path without its slash", "/a/", "", []string{"/a 301 ///a/", "/a/ Service web"}},
		{"a path without a slash", "/a", "", []string{"/a Service web"}},
		{"all paths", "/", "", []string{"/ Service web"}},
		{"an expression", "/a/", "use-regex: 'true'", []string{"(?i)/a/.* Service web"}},
		{"a rewrite to a URL", "/a", "rewrite-target: 'https://b.test/x'", []string{"(?i)/a.* 302 https//b.test/x", "/ 302 https//b.test/x"}},
		{"a rewrite to a URL with a capture", "/a/(.*)", "rewrite-target: 'https://b.test/$1'", []string{"(?i)/a/(.*) 503"}},
		{"a rewrite and a redirect", "/a", "{rewrite-target: 'https://b.test/x', permanent-redirect: 'https://c.test'}", []string{"(?i)/a.* 301 https//c.test/", "/ 301 https//c.test/"}},
		{"the host", "/", "permanent-redirect: 'https://$host/new'", []string{"/ 301 https///new"}},
		{"the host, path and query", "/", "temporal-redirect: 'https://$http_host$request_uri'", []string{"/ 302 https//"}},
		{"the scheme", "/", "temporal-redirect: '$scheme://b.test/x'", []string{"/ 302 //b.test/x"}},
		{"a part of the host", "/", "temporal-redirect: 'https://$host.b.test/x'", []string{"/ 503"}},
		{"another variable", "/", "temporal-redirect: 'https://$hostname/x'", []string{"/ 503"}},
		{"a host beside it", "/", "temporal-redirect: 'https://b.test/$host'", []string{"/ 503"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var annotations []string
			for one := range strings.SplitSeq(strings.Trim(test.annotations, "{}"), ", ") {
				if one != "" {
					annotations = append(annotations, Prefix+one)
				}
			}
			var got []string
			for _, rule := range flatten(convertText(t, pathOf(home, "web", "a.test", test.path, strings.Join(annotations, ", ")))) {
				got = append(got, strings.TrimSpace(strings.TrimSuffix(rule.path()+" "+leadsTo(&rule)+" "+rule.answer(), "redirect")))
			}
			for i := range got {
				got[i] = strings.ReplaceAll(got[i], "  ", " ")
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestSlashBeforeHTTPS: over HTTP, nginx redirects to the path with a slash first.
func TestSlashBeforeHTTPS(t *testing.T) {
	text := strings.Replace(pathOf(home, "web", "a.test", "/a/", ""), "spec: {", "spec: {tls: [{hosts: [a.test], secretName: tls}], ", 1)
	var got []string
	for _, rule := range flatten(convertText(t, text)) {
		if slices.Contains(rule.parents, portHTTP) {
			got = append(got, rule.path()+" "+leadsTo(&rule))
		}
	}
	if want := []string{"/a 301 ///a/", "/a/ 308 https//"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestRedirectOfAllPaths: the redirect of a host's first Ingress is for paths that no Ingress has, too.
func TestRedirectOfAllPaths(t *testing.T) {
	moved, web := pathOf(home, "moved", "a.test", "/a", Prefix+"permanent-redirect: https://b.test"), pathOf(home, "web", "a.test", "/b", "")
	younger := strings.Replace(moved, "name: moved", `creationTimestamp: "2024-01-01T00:00:00Z", name: moved`, 1)
	for _, test := range []struct {
		text string
		want []string
	}{
		{moved, []string{"/a redirect", "/ redirect"}},
		{younger + web, []string{"/b Service web", "/a redirect"}},
		{moved + pathOf(home, "web", "a.test", "/", ""), []string{"/a redirect", "/ Service web"}},
	} {
		got := answers(convertText(t, test.text))
		slices.Sort(got)
		slices.Sort(test.want)
		if !slices.Equal(got, test.want) {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

// TestSlashesOfOthers: the redirect to a path with a slash takes nothing from other paths.
func TestSlashesOfOthers(t *testing.T) {
	got := answers(convertText(t, pathOf(home, "web", "a.test", "/a/", "")+pathOf(home, "other", "a.test", "/a", "")))
	slices.Sort(got)
	if want := []string{"/a Service other", "/a/ Service web"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestTrustedProxies: requests that a trusted proxy had over HTTPS are not redirected to it, which would not end.
func TestTrustedProxies(t *testing.T) {
	const controller = "\n{apiVersion: v1, kind: ConfigMap, metadata: {name: controller}, data: {use-forwarded-headers: 'true'}}\n---"
	const tls = "spec: {tls: [{hosts: [a.test], secretName: tls}], "
	text := controller + strings.Replace(pathOf(home, "web", "a.test", "/", ""), "spec: {", tls, 1)
	var got []string
	for _, rule := range flatten(convertText(t, text)) {
		got = append(got, fmt.Sprint(rule.parents, " ", len(rule.Matches[0].Headers), " ", rule.answer()))
	}
	if want := []string{"[http] 1 Service web", "[http] 0 redirect", "[ListenerSet] 0 Service web"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	// Clients then show no certificate to the Gateway.
	for _, rule := range flatten(convertText(t, controller+withClients(""))) {
		if slices.Contains(rule.parents, portHTTP) && rule.answer() == "Service guard" {
			t.Errorf("path %s is open over HTTP", rule.path())
		}
	}
}

// TestWWWRedirect has the status of the ConfigMap, as nginx.
func TestWWWRedirect(t *testing.T) {
	const controller = "\n{apiVersion: v1, kind: ConfigMap, metadata: {name: controller}, data: {http-redirect-code: '301'}}\n---"
	result := convertText(t, controller+pathOf(home, "web", "a.test", "/", Prefix+"from-to-www-redirect: 'true'"))
	rules := flatten(result)
	if got := leadsTo(&rules[len(rules)-1]); got != "301 //a.test" {
		t.Errorf("got %s", got)
	}
}

// TestCredentials: nginx names no origin where any is allowed, so browsers show no page what they got with cookies.
func TestCredentials(t *testing.T) {
	for annotations, want := range map[string]bool{
		"":                                       false,
		"cors-allow-origin: '*'":                 false,
		"cors-allow-origin: 'https://a.test, *'": false,
		"cors-allow-origin: 'https://a.test'":    true,
		"cors-allow-origin: 'https://a.test', #cors-allow-credentials: 'perhaps'":   true,
		"cors-allow-origin: 'https://a.test', #cors-allow-credentials: 'false'":     false,
		"cors-allow-origin: 'https://*.a.test', #cors-allow-credentials: 'true'":    true,
		"cors-allow-origin: 'https://*.a.test, *', #cors-allow-credentials: 'true'": false,
	} {
		text := strings.ReplaceAll("#enable-cors: 'true', "+either(annotations == "", "", "#")+annotations, "#", Prefix)
		rules := flatten(convertText(t, pathOf(home, "web", "a.test", "/", text)))
		cors := rules[0].filter(func(f *gatewayv1.HTTPRouteFilter) bool { return f.CORS != nil }).CORS
		if ptr.Deref(cors.AllowCredentials, false) != want {
			t.Errorf("%s: got %+v", annotations, cors)
		}
	}
}

// TestClientsDoNotSayWhoTheyAre: backends get no header of nginx from clients. One that the ConfigMap has is kept.
func TestClientsDoNotSayWhoTheyAre(t *testing.T) {
	const controller = `
{apiVersion: v1, kind: ConfigMap, metadata: {name: controller}, data: {proxy-set-headers: a/headers}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: headers}, data: {x-real-ip: fixed}}
---`
	for text, want := range map[string]bool{"": true, controller: false} {
		var removed, set bool
		for _, filter := range objects[*appv1.GatewayConfig](convertText(t, text+pathOf(home, "web", "a.test", "/", "")))[0].Spec.Filters {
			removed = removed || filter.RequestHeaderModifier != nil && len(filter.RequestHeaderModifier.Remove) == 5
			set = set || filter.HeaderVariables != nil && filter.HeaderVariables.Set[0].Name == "X-Real-IP"
		}
		if !removed || set != want {
			t.Errorf("with %q: removed %v, set %v", text, removed, set)
		}
	}
}
