package gatewayapi_test

import (
	"path/filepath"
	"testing"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/model"
	"gateway/internal/must"
	"gateway/internal/source/gatewayapi"
)

// TestUses: what the listeners of a Gateway need is what the Gateway and its ListenerSets use.
func TestUses(t *testing.T) {
	files := must.Get(filepath.Glob("testdata/*.yaml"))(t)
	needed, refused := 0, 0
	for _, file := range files {
		objects := read(t, file)
		result := gatewayapi.Translate(objects)
		grants := func(namespace string) (all []*gatewayv1.ReferenceGrant) {
			for _, grant := range objects.Grants {
				if grant.Namespace == namespace {
					all = append(all, grant)
				}
			}
			return all
		}
		for _, gateway := range objects.Gateways {
			uses := map[string]bool{}
			for _, use := range usesOf(objects, gateway, grants) {
				if use.IsGranted {
					uses[use.Kind+"/"+gatewayapi.LocalName(gateway.Namespace, use.Namespace, use.Name)] = true
				} else {
					refused++
				}
			}
			plane := result.Planes[gatewayapi.GatewayParent(gateway.Namespace, gateway.Name)]
			if plane == nil {
				continue
			}
			need := func(kind, name string) {
				if name == "" || name == "/" { // no object can have the name
					return
				}
				if needed++; !uses[kind+"/"+name] {
					t.Errorf("%s: Gateway %s needs %s %s, and uses %v", file, gateway.Name, kind, name, uses)
				}
			}
			need("Secret", plane.BackendCertificate)
			for _, listener := range plane.Listeners {
				if listener.TLS == nil {
					continue
				}
				for _, name := range listener.TLS.Secrets {
					need("Secret", name)
				}
				for _, name := range listener.TLS.ClientCAs {
					if _, isBundle := model.TrustBundleOf(name); isBundle {
						continue // pods mount none
					}
					need("ConfigMap", name)
				}
			}
		}
	}
	if needed < 20 || refused == 0 {
		t.Errorf("%d things are needed, and %d refused", needed, refused)
	}
}

// usesOf returns what a Gateway and its ListenerSets use.
func usesOf(
	objects gatewayapi.Objects, gateway *gatewayv1.Gateway, grants func(namespace string) []*gatewayv1.ReferenceGrant,
) []gatewayapi.Use {
	uses := gatewayapi.UsesOf(gateway, grants)
	for _, set := range objects.ListenerSets {
		if gatewayapi.GatewayOf(set) == gatewayapi.GatewayParent(gateway.Namespace, gateway.Name) && objects.AllowsSet(gateway, set) {
			uses = append(uses, gatewayapi.UsesOf(set, grants)...)
		}
	}
	return uses
}
