package gatewayapi_test

import (
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"gateway/internal/source/gatewayapi"
)

// TestTheCacheForgets: what is made of objects is the same with a Cache, whatever other object comes or goes while the
// routes stay the same objects.
func TestTheCacheForgets(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("there is no testdata: %v", err)
	}
	for _, file := range files {
		all := read(t, file)
		cached := all
		cached.Cache = &gatewayapi.Cache{}
		compare := func(what string, change func(*gatewayapi.Objects)) {
			for _, objects := range []*gatewayapi.Objects{&all, &cached} {
				before := *objects
				change(objects)
				defer func() { *objects = before }()
			}
			got, want := gatewayapi.Translate(cached), gatewayapi.Translate(all)
			if !reflect.DeepEqual(got.Planes, want.Planes) {
				t.Errorf("%s without %s: the models differ", file, what)
			}
			if got, want := got.Status(nil, allLive{}), want.Status(nil, allLive{}); !reflect.DeepEqual(got, want) {
				t.Errorf("%s without %s: got\n%+v\nwant\n%+v", file, what, got, want)
			}
		}
		nothing := func(*gatewayapi.Objects) {}
		for i, grant := range all.Grants {
			compare("ReferenceGrant "+grant.Name, func(o *gatewayapi.Objects) { o.Grants = without(o.Grants, i) })
			compare("a change", nothing)
		}
		for i, policy := range all.Policies {
			compare("BackendTLSPolicy "+policy.Name, func(o *gatewayapi.Objects) { o.Policies = without(o.Policies, i) })
			compare("a change", nothing)
		}
		for i, filter := range all.Filters {
			compare("RouteFilter "+filter.Name, func(o *gatewayapi.Objects) { o.Filters = without(o.Filters, i) })
			compare("a change", nothing)
		}
		for i, gateway := range all.Gateways {
			compare("Gateway "+gateway.Name, func(o *gatewayapi.Objects) { o.Gateways = without(o.Gateways, i) })
			compare("a change", nothing)
		}
		for i, set := range all.ListenerSets {
			compare("ListenerSet "+set.Name, func(o *gatewayapi.Objects) { o.ListenerSets = without(o.ListenerSets, i) })
			compare("a change", nothing)
		}
	}
}

func without[T any](all []T, i int) []T { return slices.Delete(slices.Clone(all), i, i+1) }
