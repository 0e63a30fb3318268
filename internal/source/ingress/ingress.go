package ingress

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
)

// Input are the objects to translate, all with a namespace, and how.
type Input struct {
	Ingresses []*networkingv1.Ingress
	Classes   []*networkingv1.IngressClass
	// Services and ConfigMaps are referred to by Ingresses, as far as known.
	Services   map[types.NamespacedName]*corev1.Service
	ConfigMaps map[types.NamespacedName]*corev1.ConfigMap
	// Configuration is the ConfigMap of ingress-nginx's controller; nil: it is not known.
	Configuration *corev1.ConfigMap
	// Certificate is the Secret for hosts without one of their own, empty if there is none.
	Certificate types.NamespacedName
	// Name and Namespace name the Gateway for a class. Without the field Class, a class is added to the name.
	Name, Namespace string
	// Class is the class of the Ingresses to translate; "": all classes.
	Class string
	// Open names what may be lost though it may keep clients out: annotations, keys of the ConfigMap, and objects as
	// KIND/NAMESPACE/NAME.
	Open []string
	// Closed are the objects that requests come by, and that policies are for which are lost.
	Closed []Target
	// Taken are objects of others: what is made must not have their names.
	Taken []Subject
	// Serving reports whether objects of an earlier translation are served while this one's are applied. If so, a
	// RouteFilter has the name of its content: a rule must not get another filter before it is changed itself.
	Serving bool
	// Grants are the ReferenceGrants of others. While objects are served, an Ingress needs one for a Service of another
	// namespace: whoever may write Ingresses need not be allowed to write grants there.
	Grants []*gatewayv1.ReferenceGrant
	// Routes tell since when there are HTTPRoutes of an earlier translation: older ones come first.
	Routes map[HostRoutes]Period
	// Hostnames are those that namespaces may use; nil: any.
	Hostnames *AllowedHostnames
	// Gateways and ListenerSets were made by an earlier translation of the class: hosts stay where they are.
	Gateways     []MadeGateway
	ListenerSets []MadeListenerSet
}

// HostRoutes are the HTTPRoutes of a host in a namespace; "" stands for every host that is not named.
type HostRoutes struct{ Namespace, Host string }

// Period is the time in which objects were made.
type Period struct{ First, Last time.Time }

// Object is an object of the API.
type Object interface {
	metav1.Object
	runtime.Object
}

// Result is what becomes of the Ingresses.
type Result struct {
	// Objects are in the order in which they are to be created: among routes, it counts for expressions.
	Objects []Object
	// Ingresses is how many were translated, of the class that was asked for.
	Ingresses int
	// Notes tell what is not carried over, or differs.
	Notes []Note
	// Earlier are the names of the Gateways that only an earlier release would have made. Their hosts are at others, too.
	Earlier []string
	owners  map[Object][]*networkingv1.Ingress
}

// Owners returns the Ingresses that a route or RouteFilter is for, none for other objects.
func (r *Result) Owners(object Object) []*networkingv1.Ingress { return r.owners[object] }

// translator is the state of a translation.
type translator struct {
	Input
	notes
	closings
	configuration
	taken map[Subject]bool
	// sites are by class.
	sites   map[string]*site
	objects []Object
	owners  map[Object][]*networkingv1.Ingress
}

// Translate returns the objects that replace Ingresses.
func Translate(in Input) *Result {
	t := &translator{
		Input: in, closings: closings{open: in.Open, opened: map[string]bool{}, closed: map[Target]bool{}}, taken: map[Subject]bool{}, sites: map[string]*site{},
		owners: map[Object][]*networkingv1.Ingress{},
	}
	for _, object := range in.Taken {
		t.taken[object] = true
	}
	for _, target := range in.Closed {
		t.closed[target] = true
	}
	result := &Result{}
	ingresses := slices.DeleteFunc(slices.Clone(in.Ingresses), func(i *networkingv1.Ingress) bool { return in.Class != "" && t.classOf(i) != in.Class })
	if result.Ingresses = len(ingresses); result.Ingresses > 0 {
		t.configure()
	}
	ingresses = t.within(slices.DeleteFunc(ingresses, t.isBlocked))
	t.Ingresses = ingresses
	// The oldest Ingress wins where two disagree. Of the same age, nginx takes the last one by name.
	slices.SortStableFunc(ingresses, func(a, b *networkingv1.Ingress) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(objectName(b), objectName(a)))
	})
	for _, canaries := range []bool{false, true} {
		for _, ingress := range ingresses {
			if isCanary(ingress) == canaries {
				t.site(t.classOf(ingress)).add(t.readSettings(ingress))
			}
		}
	}
	hosts := map[string]*site{}
	for _, class := range slices.Sorted(maps.Keys(t.sites)) {
		s := t.sites[class]
		for _, h := range s.hosts {
			if other := hosts[h.name]; other != nil {
				t.note(Subject{"Gateway", t.Namespace, s.gateways[0].name}, "%s is a host of Gateway %s too. Each has an address of its own", h, other.gateways[0].name)
			}
			hosts[h.name] = s
		}
		s.translate()
		for _, g := range s.earlier {
			result.Earlier = append(result.Earlier, g.name)
		}
	}
	for _, name := range t.unused() {
		t.noteOnce(name + " is to be open, but closes nothing. Names of annotations are whole, such as " + Prefix + "auth-url")
	}
	slices.Sort(result.Earlier)
	SortNotes(t.all)
	result.Objects, result.Notes, result.owners = t.objects, t.all, t.owners
	return result
}

// isBlocked reports whether nginx leaves an Ingress out because an annotation has a word of the blocklist.
func (t *translator) isBlocked(ingress *networkingv1.Ingress) bool {
	for _, name := range keysOf(ingress.Annotations) {
		isWord := func(word string) bool { return strings.Contains(ingress.Annotations[name], word) }
		if i := slices.IndexFunc(t.blockedWords, isWord); i >= 0 && strings.HasPrefix(name, Prefix) {
			const text = "annotation %s: it has the word %q of annotation-value-word-blocklist, so nginx leaves the Ingress out"
			t.note(Subject{"Ingress", ingress.Namespace, ingress.Name}, text, strings.TrimPrefix(name, Prefix), t.blockedWords[i])
			return true
		}
	}
	return false
}

// own notes the Ingresses that an object is for.
func (t *translator) own(object Object, ingresses ...*networkingv1.Ingress) {
	for _, ingress := range ingresses {
		if !slices.Contains(t.owners[object], ingress) {
			t.owners[object] = append(t.owners[object], ingress)
		}
	}
}

// OpenBy returns what an IngressClass lets be lost.
func OpenBy(class *networkingv1.IngressClass) []string {
	return list(class.Annotations[AnnotationOpen])
}

// ClassOf returns the class that an Ingress names, "" if it names none.
func ClassOf(ingress *networkingv1.Ingress) string {
	return cmp.Or(ptr.Deref(ingress.Spec.IngressClassName, ""), ingress.Annotations["kubernetes.io/ingress.class"])
}

// classOf returns the class of an Ingress, the default class if it names none, "" if nobody knows.
func (t *translator) classOf(ingress *networkingv1.Ingress) string {
	if class := ClassOf(ingress); class != "" {
		return class
	}
	for _, class := range t.Classes {
		if class.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true" {
			return class.Name
		}
	}
	return ""
}

// site returns the site of a class. Classes have addresses of their own: internal hosts must not answer in public.
func (t *translator) site(class string) *site {
	if t.sites[class] == nil {
		name := t.Name
		if class != "" && t.Class == "" {
			name += "-" + class
		}
		s := &site{
			translator: t, gateways: []*gateway{{name: t.claim("Gateway", t.Namespace, label(name, maxGatewayName))}}, class: class,
			byName: map[string]*host{}, aliases: map[string]bool{}, byHostname: map[string][]*listener{},
			sets: map[types.NamespacedName][]*listenerSet{}, places: map[place]*listenerSet{},
			filters: map[string][]*appv1.RouteFilter{}, grants: map[string]*gatewayv1.ReferenceGrant{},
		}
		s.readMade()
		t.sites[class] = s
	}
	return t.sites[class]
}

// isController reports whether a class is for Ingresses of ingress-nginx, as far as known.
func (t *translator) isController(class string) bool {
	for _, other := range t.Classes {
		if other.Name == class {
			return other.Spec.Controller == "k8s.io/ingress-nginx" || other.Spec.Controller == Controller
		}
	}
	return cmp.Or(class, "nginx") == "nginx"
}

func objectName(object metav1.Object) string { return object.GetNamespace() + "/" + object.GetName() }

// either returns one of two values, by a condition.
func either(condition bool, yes, no string) string {
	if condition {
		return yes
	}
	return no
}
