package agent

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"gateway/internal/endpoints"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/model"
	"gateway/internal/proxyconfig"
	"gateway/internal/routing"
	"gateway/internal/tree"
)

// configuration is a configuration for HAProxy with its inputs. It is immutable.
type configuration struct {
	version  version
	table    routing.Table
	material material
	// partial reports whether certificates are left out of it because gateway-keys has not passed on any yet.
	partial bool
	config  ir.Config
}

// render compiles a configuration from what was observed. changed are the Service ports whose states are others than
// before.
func (in *inputs) render(paths ir.Paths, bind render.Bind, changed ...model.Backend) configuration {
	config := in.renderer.Render(render.Input{
		Table:        in.table,
		Backends:     in.states,
		Certificates: in.material.certificates,
		Certified:    in.material.changed,
		Authorities:  in.material.authorities,
		KeySets:      in.material.keySets,
		Paths:        paths,
		Bind:         bind,

		HasBackendCertificate: in.material.backendCertificate,
	}, changed...)
	in.material.changed = []string{}
	return configuration{
		version: version{uid: in.uid, hash: config.Hash(), origins: in.origins, routes: in.routes, versions: in.versions},
		table:   in.table, material: in.material, partial: in.awaiting, config: config,
	}
}

// inputs are the inputs of the configuration, with today's states of the Service ports. The certificates are the
// earlier ones, so this takes no reload.
func (c *configuration) inputs(cluster endpoints.Cluster) *inputs {
	return &inputs{
		uid: c.version.uid, origins: c.version.origins, routes: c.version.routes, versions: c.version.versions, table: c.table, material: c.material, awaiting: c.partial,
		states: endpoints.States(c.table.Backends(), c.table.Policies, cluster),
	}
}

// version identifies a configuration, without its endpoints.
type version struct {
	// uid is the UID of the object of kind Gateway. Another object of its name has generations of its own.
	uid types.UID
	// hash is of the content: it is the same in all proxies that run the same.
	hash string
	// origins are objects that it was made from, with their generations, the one of the kind Gateway first. routes come
	// from others.
	origins []model.Origin
	routes  tree.Map[*model.Route]
	// versions are the resourceVersions of the Gateway API objects in it.
	versions Versions
}

// generation is the generation of the Gateway object; 0 for the zero version.
func (v version) generation() int64 {
	if v.isNone() {
		return 0
	}
	return v.origins[0].Generation
}

func (v version) isNone() bool { return len(v.origins) == 0 }

// shown is the form of a version in /proxy-config, nil for the zero version.
func (v version) shown() *proxyconfig.Version {
	if v.isNone() {
		return nil
	}
	return &proxyconfig.Version{Hash: v.hash, Origins: v.allOrigins()}
}

// allOrigins returns all objects that the version was made from, each once.
func (v version) allOrigins() []model.Origin {
	all, seen := slices.Clone(v.origins), map[model.Origin]bool{}
	for _, origin := range all {
		seen[origin] = true
	}
	for route := range v.routes.Values() {
		if !seen[route.Origin] {
			seen[route.Origin] = true
			all = append(all, route.Origin)
		}
	}
	return all
}

// String is for the log.
func (v version) String() string {
	if v.isNone() {
		return "none"
	}
	first, more := v.origins[0], ""
	if n := len(v.allOrigins()) - 1; n > 0 {
		more = fmt.Sprintf(" and %d more objects", n)
	}
	return fmt.Sprintf("%s (%s %s/%s generation %d%s)", v.hash, first.Kind, first.Namespace, first.Name, first.Generation, more)
}
