package gatewayapi

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sort"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/filters"
	"gateway/internal/logging"
	"gateway/internal/model"
	"gateway/internal/operator/safely"
	"gateway/internal/routing"
	source "gateway/internal/source/gatewayapi"
)

// retryFaulty is how often an object is looked at again that made the evaluation panic and was not edited since.
const retryFaulty = time.Minute

// evaluation is what the objects ask for. None of it has been written.
type evaluation struct {
	// isAll reports whether all objects were evaluated. Then, or if they may differ, planes are the data planes.
	isAll  bool
	planes []source.DataPlane
	// attachments are what the objects of namespaces need of our Gateways; nil: what they did.
	attachments map[source.Parent]map[string]appv1.GatewayAttachmentSpec
	// objects are the objects whose status is evaluated.
	objects map[source.Object]bool
	status  source.Status
}

// compiled is what compiles a data plane, and what it found wrong with routes.
type compiled struct {
	routing.Compiler
	problems map[source.Object][]model.Problem
}

// fault is a panic that an object caused.
type fault struct {
	generation int64
	message    string
	at         time.Time
}

// evaluateChanged returns the changes because of tasks; nil: everything has to be evaluated.
func (c *Controller) evaluateChanged(ctx context.Context, tasks []task) (result *evaluation) {
	for _, task := range tasks {
		switch { // Replace does not look at Services
		case c.index == nil:
		case task.Kind == kindService:
			c.index.ChangeService(task.Namespace, task.Name)
		case task.Kind == kindImport:
			c.index.ChangeService(task.Namespace, model.ServiceImport(task.Name))
		}
	}
	if c.isIncomplete || c.index == nil || len(c.faults) > 0 || len(c.seen.stalled) > 0 || len(c.stalledResources()) > 0 {
		return nil
	}
	c.seen.begin(ctx)
	c.seen.look = c.takeQuiet()
	err := safely.Do(func() error {
		if c.change(c.seen, tasks) {
			result = c.result(c.seen, false)
		}
		return nil
	})
	if err != nil { // nobody knows what is in them
		c.index, c.compilers, result = nil, nil, nil
	}
	return result
}

// evaluate returns what the objects ask for, without those that make the evaluation panic. What exists for those stays
// unchanged, and their status says so.
func (c *Controller) evaluate(seen *observed) (*evaluation, error) {
	faulty := c.knownFaults(seen)
	for {
		result, cause := c.try(seen, func(object metav1.Object) bool { return !faulty[object] })
		if cause == nil {
			c.forgetFaults(faulty)
			mark(seen, faulty, c.faults, &result.status)
			if len(faulty) > 0 {
				c.queue.AddAfter(rebuild, retryFaulty)
			}
			return result, nil
		}
		culprit := c.findFault(seen, faulty)
		if culprit == nil {
			return nil, cause
		}
		faulty[culprit] = true
		c.noteFault(culprit, cause)
	}
}

// knownFaults returns the objects that are known to make the evaluation panic, except those whose retry is due.
func (c *Controller) knownFaults(seen *observed) map[metav1.Object]bool {
	faulty := map[metav1.Object]bool{}
	if len(c.faults) == 0 {
		return faulty
	}
	seen.Each(func(_ string, object metav1.Object) {
		known, ok := c.faults[object.GetUID()]
		if ok && known.generation == object.GetGeneration() && c.now().Sub(known.at) < retryFaulty {
			faulty[object] = true
		}
	})
	return faulty
}

// forgetFaults forgets the faults of all objects but the faulty ones.
func (c *Controller) forgetFaults(faulty map[metav1.Object]bool) {
	faults := map[types.UID]fault{}
	for object := range faulty {
		faults[object.GetUID()] = c.faults[object.GetUID()]
	}
	c.faults = faults
}

// noteFault remembers that an object makes the evaluation panic, and logs it unless that was known of its generation.
func (c *Controller) noteFault(object metav1.Object, cause error) {
	known := c.faults[object.GetUID()].generation == object.GetGeneration()
	message := cause.Error()
	if panicked := new(safely.PanicError); errors.As(cause, &panicked) {
		message = panicked.Message()
	}
	c.faults[object.GetUID()] = fault{object.GetGeneration(), message, c.now()}
	if !known {
		logging.Errorf("Going on without %T %s/%s of generation %d. This is a bug, please report it: %v",
			object, object.GetNamespace(), object.GetName(), object.GetGeneration(), cause)
	}
}

// findFault returns an object that makes the evaluation panic, nil if it panics without any object. It is the last of
// the shortest list of first objects that panics, which takes a dozen tries among thousands.
func (c *Controller) findFault(seen *observed, faulty map[metav1.Object]bool) metav1.Object {
	var all []metav1.Object
	places := map[metav1.Object]int{}
	seen.Each(func(_ string, object metav1.Object) {
		if !faulty[object] {
			places[object] = len(all)
			all = append(all, object)
		}
	})
	first := sort.Search(len(all)+1, func(n int) bool {
		_, cause := c.try(seen, func(object metav1.Object) bool {
			place, ok := places[object]
			return ok && place < n
		})
		return cause != nil
	})
	if first == 0 || first > len(all) {
		return nil
	}
	return all[first-1]
}

// try evaluates the objects that keep selects.
func (c *Controller) try(seen *observed, keep func(metav1.Object) bool) (result *evaluation, err error) {
	err = safely.Do(func() error {
		objects := seen.Only(func(_ string, object metav1.Object) bool { return keep(object) })
		if c.index == nil {
			c.index = source.NewIndex(objects)
		} else {
			c.index.Replace(objects)
		}
		seen.waiting, seen.idle = map[source.Parent]map[source.Object]bool{}, map[source.Parent]map[source.Object]bool{}
		result = c.result(seen, true)
		return nil
	})
	if err != nil { // nobody knows what is in them
		c.index, c.compilers = nil, nil
	}
	return result, err
}

// result returns what the objects in the index ask for, of all of them or of those that changed.
func (c *Controller) result(seen *observed, isAll bool) *evaluation {
	translated := c.index.Result()
	result := &evaluation{isAll: isAll, objects: seen.look}
	if isAll || translated.NewPlanes || seen.otherPlanes {
		result.planes = translated.DataPlanes()
	}
	if isAll || translated.Places || seen.otherBindings {
		result.attachments = map[source.Parent]map[string]appv1.GatewayAttachmentSpec{}
		served := c.servedResources()
		for _, own := range c.ownGateways(seen) {
			seen.names[cache.MetaObjectToName(own)] = true
			result.attachments[own.parent] = translated.Attachments(own.parent, served)
		}
	}
	maps.Copy(result.objects, translated.Objects)
	c.compile(translated, result.objects)
	problems := func(plane source.Parent, route source.Object) []model.Problem {
		return c.compilers[plane].problems[route]
	}
	for id := range result.objects {
		if version := c.versions[id]; version != nil {
			version.next()
		}
	}
	result.status = translated.StatusOf(result.objects, problems, seen)
	return result
}

// compile compiles the models of data planes, and adds the routes to objects that it finds something else wrong with
// than before, or that get no requests by other rules.
func (c *Controller) compile(translated *source.Result, objects map[source.Object]bool) {
	compilers := map[source.Parent]*compiled{}
	for parent, plane := range translated.Planes {
		compiler := c.compilers[parent]
		if compiler == nil {
			compiler = &compiled{Compiler: routing.Compiler{Check: filters.Problem}}
		}
		before := compiler.problems
		compiler.problems = source.ProblemsByRoute(slices.Concat(compiler.Problems(plane), compiler.Unreachable()), plane.Problems)
		for _, problems := range []map[source.Object][]model.Problem{before, compiler.problems} {
			for route := range problems {
				if !slices.Equal(before[route], compiler.problems[route]) {
					objects[route] = true
				}
			}
		}
		compilers[parent] = compiler
	}
	c.compilers = compilers
}
