package agent

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"gateway/internal/endpoints"
	"gateway/internal/model"
	"gateway/internal/peers"
)

// Source is the origin of the objects: an API server (see watcher), or anything else that fills this in.
type Source struct {
	// Run follows the objects until ctx ends. It calls changed, which does not block, when Changes has something new.
	Run func(ctx context.Context, changed func())
	// Changes returns what changed since it was called last; false: not all objects were seen yet. anew forgets what it
	// returned before.
	Changes func(anew bool) (Changes, bool)
	// Cluster has the Services and EndpointSlices as they are now.
	Cluster endpoints.Cluster
	// Bundle returns the certificates of a ClusterTrustBundle, or its problem; known is false before it was read. nil:
	// there is no API server.
	Bundle func(name string) (content, problem string, known bool)
	// Pods returns the proxy pods of the Gateway, with the own one; nil: there are no others.
	Pods func() []peers.Pod
}

// Changes are the changes of the objects.
type Changes struct {
	// Gateway is the model of the objects by now; nil if it did not change.
	Gateway *model.Gateway
	// UID is the UID of the object of kind Gateway, if Gateway is set. Another object of its name has generations of its
	// own.
	UID types.UID
	// Versions are the resourceVersions of the Gateway API objects in this and all earlier changes.
	Versions Versions
	// Services are those that changed, or whose EndpointSlices did. Bundles reports whether ClusterTrustBundles changed.
	Services []types.NamespacedName
	Bundles  bool
}
