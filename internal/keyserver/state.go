package keyserver

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/source/gatewayapi"
)

// target is where an object is looked for: by its name, or by the name that it has for Gateways of other namespaces.
type target struct {
	id
	isLocal bool
}

// need is what somebody lets a Gateway have: an object, for some uses.
type need struct {
	target
	uses use
}

// claimant is an object by which a Gateway may have others: itself, the Gateway of the Gateway API that it was made
// for, a ListenerSet, or a GatewayAttachment.
type claimant struct{ kind, namespace, name string }

// The kinds of claimants, and of what they depend on.
const (
	kindOwn        = gatewayapi.KindOwn
	kindGateway    = "Gateway"
	kindSet        = "ListenerSet"
	kindAttachment = "GatewayAttachment"
	kindGrant      = "ReferenceGrant"
	kindNamespace  = "Namespace"
	kindBinding    = "RoleBinding"
)

// claims are what a claimant claims: for which Gateway, and what, by the key that pods know it by. on are the objects
// that this depends on beside the claimant; a ReferenceGrant or RoleBinding without a name stands for all of its
// namespace.
type claims struct {
	gateway types.NamespacedName
	needs   map[string]need
	on      map[claimant]bool
}

// consent says that the agents of a Gateway may read the routes of a namespace, "": of all.
type consent struct {
	namespace string
	gateway   types.NamespacedName
}

// plan is what a Gateway may have, by the key that its pods know it by. A need counts as often as it is claimed.
type plan struct {
	needs   map[string]map[need]int
	streams map[*stream]bool
	// unnamed is how many names that the Gateway does not name its pods have not been told of, and long is how many of
	// their long requests are being read.
	unnamed, long int
}

// wanter is somebody who has to hear of changes of an object.
type wanter struct {
	gateway types.NamespacedName
	key     string
}

// state is the state of the cluster, as far as known. It changes by one object at a time.
type state struct {
	// reads reports whether the server may read Secrets and ConfigMaps of a namespace.
	reads func(namespace string) bool

	mu sync.Mutex
	// objects are the Secrets and ConfigMaps, by both of their targets, and wanters are who has to hear of each.
	objects map[target]*object
	wanters map[target]map[wanter]int
	// withdrawn is where objects count as if they were not there.
	withdrawn map[place]bool

	// own are Gateways of our own.
	own         map[types.NamespacedName]*appv1.Gateway
	gateways    map[types.NamespacedName]*gatewayv1.Gateway
	sets        map[types.NamespacedName]*gatewayv1.ListenerSet
	attachments map[types.NamespacedName]*appv1.GatewayAttachment
	grants      map[string]map[string]*gatewayv1.ReferenceGrant
	namespaces  map[string]labels.Set
	// bindings are the RoleBindings, and those without a namespace the ClusterRoleBindings, by which agents may read
	// routes. consents count them.
	bindings map[types.NamespacedName][]consent
	consents map[consent]int

	// teams are the namespaces with ListenerSets, which teamOf has the team of. unsettled are those that changed.
	teams     map[team]*teamSets
	teamOf    map[types.NamespacedName]team
	unsettled map[team]bool

	// plans are by our own Gateways.
	plans map[types.NamespacedName]*plan
	// claimed is what claimants claim, and dependents has them by what they depend on.
	claimed    map[claimant]claims
	dependents map[claimant]map[claimant]bool
	// pods has the stream of each pod.
	pods map[types.UID]*stream
}

func newState(reads func(namespace string) bool) *state {
	return &state{
		reads: reads, objects: map[target]*object{}, wanters: map[target]map[wanter]int{}, withdrawn: map[place]bool{},
		own: map[types.NamespacedName]*appv1.Gateway{}, gateways: map[types.NamespacedName]*gatewayv1.Gateway{},
		sets:        map[types.NamespacedName]*gatewayv1.ListenerSet{},
		attachments: map[types.NamespacedName]*appv1.GatewayAttachment{},
		grants:      map[string]map[string]*gatewayv1.ReferenceGrant{}, namespaces: map[string]labels.Set{},
		bindings: map[types.NamespacedName][]consent{}, consents: map[consent]int{},
		teams: map[team]*teamSets{}, teamOf: map[types.NamespacedName]team{}, unsettled: map[team]bool{},
		plans: map[types.NamespacedName]*plan{}, claimed: map[claimant]claims{},
		dependents: map[claimant]map[claimant]bool{}, pods: map[types.UID]*stream{},
	}
}

// setObject takes in a Secret or ConfigMap; gone: it is not there any more.
func (s *state) setObject(o *object, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range o.targets() {
		if gone {
			delete(s.objects, t)
		} else {
			s.objects[t] = o
		}
		s.notify(t)
	}
}

// targets are where the object is found.
func (o *object) targets() [2]target {
	local := o.id
	local.name = gatewayapi.LocalName("", o.namespace, o.name)
	return [2]target{{o.id, false}, {local, true}}
}

// notify tells the streams that want an object.
func (s *state) notify(t target) {
	for w := range s.wanters[t] {
		s.plans[w.gateway].touch(w.key)
	}
}

// touch tells the streams of a Gateway that what a key stands for may be another.
func (p *plan) touch(key string) {
	for stream := range p.streams {
		stream.touch(key)
	}
}

// withdraw makes the objects of a place count as if they were not there, or count again. It reports whether that is
// another state than before.
func (s *state) withdraw(in place, isWithdrawn bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.withdrawn[in] == isWithdrawn {
		return false
	}
	if s.withdrawn[in] = isWithdrawn; !isWithdrawn {
		delete(s.withdrawn, in)
	}
	for t := range s.wanters {
		if (place{t.kind, t.namespace}) == in {
			s.notify(t)
		}
	}
	return true
}

// content returns what the pods of a Gateway get for a key.
func (s *state) content(p *plan, key string) *content {
	var found *object
	var uses use
	for n := range p.needs[key] {
		o := s.objects[n.target]
		if o == nil || s.withdrawn[place{n.kind, n.namespace}] {
			continue
		}
		if found == nil || found.id != o.id && o.before(found.id) {
			found, uses = o, 0 // two objects have one local name: it stands for one of them
		}
		if found == o {
			uses |= n.uses
		}
	}
	return found.show(uses)
}

// before orders objects.
func (i id) before(other id) bool {
	return i.namespace < other.namespace || i.namespace == other.namespace && i.name < other.name
}

// claim works out what a claimant claims, and tells the streams whose content changes.
func (s *state) claim(c claimant) {
	before, now := s.claimed[c], s.claimsOf(c)
	if s.claimed[c] = now; len(now.on) == 0 && len(now.needs) == 0 {
		delete(s.claimed, c)
	}
	for on := range before.on {
		if !now.on[on] {
			if delete(s.dependents[on], c); len(s.dependents[on]) == 0 {
				delete(s.dependents, on)
			}
		}
	}
	for on := range now.on {
		if s.dependents[on] == nil {
			s.dependents[on] = map[claimant]bool{}
		}
		s.dependents[on][c] = true
	}
	for key, n := range now.needs {
		if before.gateway != now.gateway || before.needs[key] != n {
			s.count(now.gateway, key, n, 1)
		}
	}
	for key, n := range before.needs {
		if before.gateway != now.gateway || now.needs[key] != n {
			s.count(before.gateway, key, n, -1)
		}
	}
}

// changed is claim for an object, if it is a claimant, and for all who depend on it.
func (s *state) changed(c claimant) {
	s.claim(c)
	for dependent := range maps.Clone(s.dependents[c]) {
		s.claim(dependent)
	}
	s.settle()
}

// count counts a need of a Gateway.
func (s *state) count(gateway types.NamespacedName, key string, n need, by int) {
	p := s.plan(gateway)
	add(p.needs, key, n, by)
	add(s.wanters, n.target, wanter{gateway, key}, by)
	p.touch(key)
	s.prune(gateway)
}

// add adds to a count.
func add[K, V comparable](counts map[K]map[V]int, key K, of V, by int) {
	if counts[key] == nil {
		counts[key] = map[V]int{}
	}
	if counts[key][of] += by; counts[key][of] == 0 {
		delete(counts[key], of)
	}
	if len(counts[key]) == 0 {
		delete(counts, key)
	}
}

// plan returns the plan of a Gateway.
func (s *state) plan(gateway types.NamespacedName) *plan {
	p := s.plans[gateway]
	if p == nil {
		p = &plan{needs: map[string]map[need]int{}, streams: map[*stream]bool{}}
		s.plans[gateway] = p
	}
	return p
}

// prune forgets the plan of a Gateway if it is empty and nobody listens.
func (s *state) prune(gateway types.NamespacedName) {
	if p := s.plans[gateway]; p != nil && len(p.needs)+len(p.streams)+p.long == 0 {
		delete(s.plans, gateway)
	}
}
