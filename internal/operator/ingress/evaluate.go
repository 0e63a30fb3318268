package ingress

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	source "gateway/internal/source/ingress"
)

// evaluation is what the Ingresses ask for. None of it has been written.
type evaluation struct {
	// objects are in the order in which they are to be created, and byName has the same.
	objects []*desired
	byName  map[source.Subject]*desired
	// notes are the notes of all classes.
	notes []note
	// served are the Ingresses of our classes, by UID, and waiting the classes that stay as they are, with the reason.
	served  map[types.UID]*served
	waiting map[string]string
	// faulty are the Ingresses that make the translation panic. What was made of them stays.
	faulty []fault
}

// desired is an object as it should be.
type desired struct {
	source.Subject
	class  *networkingv1.IngressClass
	object source.Object
	// digest is the digest of object.
	digest string
	owners []*networkingv1.Ingress
	// family is the same for routes that differ in their rules alone, host is their first one.
	family, host string
	// held reports whether it stays as it is, because of a faulty Ingress.
	held bool
}

// note is one of an object of a class.
type note struct {
	source.Note
	class *networkingv1.IngressClass
}

// served is what becomes of an Ingress.
type served struct {
	routes   []source.Subject
	gateways []source.Subject
	// isMoving reports whether it is at Gateways of an earlier release, too.
	isMoving bool
}

// evaluate returns what the Ingresses ask for.
func (c *Controller) evaluate(seen *observed) *evaluation {
	e := &evaluation{byName: map[source.Subject]*desired{}, served: map[types.UID]*served{}, waiting: map[string]string{}}
	slices.SortFunc(seen.classes, func(a, b *networkingv1.IngressClass) int { return strings.Compare(a.Name, b.Name) })
	configurations := map[string]*corev1.ConfigMap{}
	var ours []*networkingv1.IngressClass
	for _, class := range seen.classes {
		if class.Spec.Controller != source.Controller {
			continue
		}
		ours = append(ours, class)
		if configuration, problem := c.configurationOf(class, seen.configMaps); problem != "" {
			e.waiting[class.Name] = problem
		} else {
			configurations[class.Name] = configuration
		}
	}
	taken := c.takenNames(e.waiting)
	for _, class := range ours {
		if e.waiting[class.Name] != "" {
			continue
		}
		result, faulty := c.translateSome(source.Input{
			Ingresses: slices.DeleteFunc(slices.Clone(seen.ingresses), func(i *networkingv1.Ingress) bool { return source.ClassOf(i) != class.Name }),
			Classes:   seen.classes, Services: seen.services, ConfigMaps: seen.configMaps, Configuration: configurations[class.Name],
			Name: class.Name, Namespace: c.inputs.Namespace, Class: class.Name, Open: source.OpenBy(class),
			Taken: taken, Serving: true, Grants: seen.grants, Routes: seen.routes, Hostnames: c.hostnamesAt(source.GatewayName(class.Name)),
			Gateways: seen.gateways[class.Name], ListenerSets: seen.listenerSets[class.Name],
		})
		e.faulty = append(e.faulty, faulty...)
		if problem := c.foreign(result, class); problem != "" {
			e.waiting[class.Name] = problem
			continue
		}
		for _, object := range result.Objects {
			one := newDesired(object, class, result.Owners(object))
			one.held = c.isHeld(one, faulty)
			e.objects, e.byName[one.Subject], taken = append(e.objects, one), one, append(taken, one.Subject)
			e.serve(object, one, result.Earlier)
		}
		for _, one := range result.Notes {
			e.notes = append(e.notes, note{one, class})
		}
		if len(faulty) > 0 {
			taken = append(taken, c.madeOf(class.Name)...)
		}
	}
	return e
}

// configurationOf returns the ConfigMap that a class names, nil if it names none, or why the class waits.
func (c *Controller) configurationOf(class *networkingv1.IngressClass, all map[types.NamespacedName]*corev1.ConfigMap) (*corev1.ConfigMap, string) {
	parameters := class.Spec.Parameters
	switch {
	case isAdopted(class):
		return nil, "what was made of its Ingresses was adopted: delete them, and the IngressClass"
	case len(class.Name) > validation.LabelValueMaxLength:
		return nil, fmt.Sprintf("its name is longer than %d characters", validation.LabelValueMaxLength)
	case parameters == nil:
		return nil, ""
	case parameters.APIGroup != nil && *parameters.APIGroup != "" || parameters.Kind != "ConfigMap" ||
		parameters.Namespace == nil || *parameters.Namespace != c.inputs.Namespace:
		return nil, fmt.Sprintf("spec.parameters: name a ConfigMap of namespace %s, with scope Namespace, or none", c.inputs.Namespace)
	}
	name := types.NamespacedName{Namespace: c.inputs.Namespace, Name: parameters.Name}
	if all[name] == nil {
		return nil, fmt.Sprintf("spec.parameters: there is no ConfigMap %s: create it", name)
	}
	return all[name], ""
}

func isAdopted(class *networkingv1.IngressClass) bool {
	_, is := class.Annotations[source.AnnotationAdopted]
	return is
}

// takenNames returns the names that are not free: of objects of others, and of what was made of classes that wait.
func (c *Controller) takenNames(waiting map[string]string) []source.Subject {
	var taken []source.Subject
	for object := range c.taken {
		if !isShared(object) {
			taken = append(taken, object)
		}
	}
	for class := range waiting {
		taken = append(taken, c.madeOf(class)...)
	}
	return taken
}

// madeOf returns the names of what was made of a class.
func (c *Controller) madeOf(class string) (all []source.Subject) {
	for kind, informer := range c.made {
		for _, object := range list[*made](informer) {
			if object.Labels[source.LabelClass] == class {
				all = append(all, source.Subject{Kind: kind, Namespace: object.Namespace, Name: object.Name})
			}
		}
	}
	return all
}

// isShared reports whether an object is a Gateway or its settings. With another name, it would have another address.
func isShared(object source.Subject) bool {
	return object.Kind == "Gateway" || object.Kind == "GatewayConfig"
}

// foreign returns why the Gateway of a class cannot be made: somebody else has one of its name; "" if it can.
func (c *Controller) foreign(result *source.Result, class *networkingv1.IngressClass) string {
	for _, object := range result.Objects {
		if subject := subjectOf(object); isShared(subject) && c.taken[subject] {
			return fmt.Sprintf("%s %s/%s exists and was not made of IngressClass %s: delete or rename one of them",
				subject.Kind, subject.Namespace, subject.Name, class.Name)
		}
	}
	return ""
}

func subjectOf(object source.Object) source.Subject {
	return source.Subject{Kind: object.GetObjectKind().GroupVersionKind().Kind, Namespace: object.GetNamespace(), Name: object.GetName()}
}

// newDesired returns an object as it is to be applied, with label and owners.
func newDesired(object source.Object, class *networkingv1.IngressClass, owners []*networkingv1.Ingress) *desired {
	one := &desired{Subject: subjectOf(object), class: class, owners: owners, object: object}
	var refs []metav1.OwnerReference
	for _, owner := range owners {
		if owner.Namespace == object.GetNamespace() {
			refs = append(refs, metav1.OwnerReference{
				APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "Ingress", Name: owner.Name, UID: owner.UID,
			})
		}
	}
	object.SetLabels(labels.Merge(object.GetLabels(), labels.Set{source.LabelClass: class.Name}))
	object.SetOwnerReferences(refs)
	if route, ok := object.(*gatewayv1.HTTPRoute); ok {
		one.family = digestOf([]any{route.Spec.Hostnames, route.Spec.ParentRefs})
		if len(route.Spec.Hostnames) > 0 {
			one.host = string(route.Spec.Hostnames[0])
		}
	}
	one.digest = digestOf(object)
	return one
}

// hostnames returns the hostnames of a route, "" for one without, or of the listeners of a ListenerSet.
func (d *desired) hostnames() (all []string) {
	var names []gatewayv1.Hostname
	switch object := d.object.(type) {
	case *gatewayv1.HTTPRoute:
		names = object.Spec.Hostnames
	case *gatewayv1.TLSRoute:
		names = object.Spec.Hostnames
	case *gatewayv1.ListenerSet:
		for i := range object.Spec.Listeners {
			if name := object.Spec.Listeners[i].Hostname; name != nil {
				names = append(names, *name)
			}
		}
	default:
		return nil
	}
	for _, name := range names {
		all = append(all, string(name))
	}
	if len(all) == 0 {
		return []string{""}
	}
	return all
}

// body returns what to apply, without a resourceVersion.
func (d *desired) body() *unstructured.Unstructured {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(d.object)
	utilruntime.Must(err) // objects of the API are made to be converted
	delete(content, "status")
	body := &unstructured.Unstructured{Object: content}
	body.SetCreationTimestamp(metav1.Time{})
	body.SetAnnotations(map[string]string{source.AnnotationApplied: d.digest})
	return body
}

// digestOf returns the same text for equal contents only.
func digestOf(content any) string {
	text, err := json.Marshal(content)
	utilruntime.Must(err) // objects of the API are made to be written
	return fmt.Sprintf("%x", sha256.Sum256(text))[:32]
}

// serve notes which routes and Gateways an Ingress has. earlier are the Gateways of an earlier release.
func (e *evaluation) serve(object source.Object, one *desired, earlier []string) {
	var parents []gatewayv1.ParentReference
	switch route := object.(type) {
	case *gatewayv1.HTTPRoute:
		parents = route.Spec.ParentRefs
	case *gatewayv1.TLSRoute:
	default:
		return
	}
	for _, owner := range one.owners {
		if e.served[owner.UID] == nil {
			e.served[owner.UID] = &served{}
		}
		of := e.served[owner.UID]
		of.routes = append(of.routes, one.Subject)
		for _, parent := range parents {
			gateway := source.Subject{Kind: "Gateway", Namespace: one.Namespace, Name: string(parent.Name)}
			if parent.Namespace != nil {
				gateway.Namespace = string(*parent.Namespace)
			}
			switch {
			case parent.Kind != nil || slices.Contains(of.gateways, gateway):
			case slices.Contains(earlier, gateway.Name):
				of.isMoving = true
			default:
				of.gateways = append(of.gateways, gateway)
			}
		}
	}
}
