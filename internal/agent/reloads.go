package agent

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"

	appv1 "gateway/api/app/v1"
	"gateway/internal/logging"
	"gateway/internal/model"
	"gateway/internal/routing"
	"gateway/internal/tree"
)

// A namespace may cause so many reloads at once, and then one in each interval.
const (
	reloadBurst    = 5
	reloadInterval = 15 * time.Second
)

// reloadBudget bounds how often HAProxy is reloaded because of one namespace, as each reload takes CPU and memory of
// all. What an edit needs is known once it was taken in. So a namespace that has caused too many reloads waits with all
// its edits, as if its watches were slower. One that has caused any lately is taken in by itself, so that no other is
// charged for it. Where it is not known which of several namespaces has caused a reload, one is charged for it only
// if it causes the next one, and each is taken in by itself for a while.
type reloadBudget struct {
	// owner is the namespace of the Gateway, which has no bound.
	owner string
	clock clock.PassiveClock
	// limits are the budgets of namespaces that have caused reloads lately.
	limits map[string]*rate.Limiter
	// suspects are namespaces of which one has caused a reload, and until when they are taken in by themselves.
	suspects map[string]time.Time
	// charged is the LoadHash of what a reload that is due was charged for; "": none is due.
	charged string

	// What follows is of one pass. crowded reports whether reloads have to wait because of old workers. taken are the
	// namespaces with changes that are taken in; alone is the only one if it is not "". postponed reports whether others
	// are taken in next, and waiting are those that may cause no reload yet.
	crowded   func() bool
	taken     map[string]bool
	alone     string
	postponed bool
	waiting   map[string]bool
}

func newReloadBudget(owner string) *reloadBudget {
	b := &reloadBudget{owner: owner, clock: clock.RealClock{}, limits: map[string]*rate.Limiter{}, suspects: map[string]time.Time{}}
	b.begin(func() bool { return false })
	return b
}

// begin begins a pass.
func (b *reloadBudget) begin(crowded func() bool) {
	b.crowded = crowded
	b.taken, b.alone, b.postponed, b.waiting = map[string]bool{}, "", false, map[string]bool{}
	now := b.clock.Now()
	maps.DeleteFunc(b.limits, func(_ string, limit *rate.Limiter) bool { return limit.TokensAt(now) >= reloadBurst })
	maps.DeleteFunc(b.suspects, func(_ string, until time.Time) bool { return !now.Before(until) })
}

// take reports whether changes of a namespace are taken in now.
func (b *reloadBudget) take(namespace string) bool {
	limit := b.limits[namespace]
	byItself := limit != nil || !b.suspects[namespace].IsZero()
	switch {
	case b.taken[namespace]:
		return true
	case b.waiting[namespace]: // all of it waits, and not a part: policies before the routes that need them
		return false
	case limit != nil && limit.TokensAt(b.clock.Now()) < 1:
		b.waiting[namespace] = true
		return false
	case b.alone != "" || byItself && len(b.taken) > 0:
		b.postponed = true
		return false
	case byItself && b.crowded():
		return false
	case byItself:
		b.alone = namespace
	}
	b.taken[namespace] = true
	return true
}

// charge charges the namespaces whose changes were taken in for the reload that they need. loadHash identifies the
// configuration to be loaded; "": no reload is due.
func (b *reloadBudget) charge(loadHash string) {
	isNew := loadHash != "" && loadHash != b.charged
	b.charged = loadHash
	if !isNew {
		return
	}
	for namespace := range b.taken {
		if namespace == b.owner {
			continue
		}
		if len(b.taken) > 1 {
			b.suspects[namespace] = b.clock.Now().Add(reloadInterval)
			continue
		}
		if b.limits[namespace] == nil {
			b.limits[namespace] = rate.NewLimiter(rate.Every(reloadInterval), reloadBurst)
		}
		limit, count := b.limits[namespace], 1
		if !b.suspects[namespace].IsZero() {
			delete(b.suspects, namespace)
			count = 2
		}
		limit.ReserveN(b.clock.Now(), count)
		if limit.TokensAt(b.clock.Now()) < 1 {
			logging.Infof("HAProxy was reloaded so often because of namespace %s that its next edits wait for %s", namespace, reloadInterval)
		}
	}
}

// problems returns which namespaces wait, and why.
func (b *reloadBudget) problems() []appv1.ProxyProblem {
	var all []appv1.ProxyProblem
	for _, namespace := range slices.Sorted(maps.Keys(b.waiting)) {
		all = append(all, appv1.ProxyProblem{
			Origin: appv1.ProblemOrigin{Kind: "Namespace", Namespace: namespace, Name: namespace}, Reason: appv1.ProblemAwaitingReload,
			Message: fmt.Sprintf("edits of namespace %s wait: it may cause %d reloads of HAProxy at once, and then one every %s", namespace, reloadBurst, reloadInterval),
		})
	}
	return all
}

// awaitTurn leaves a listener the certificates that it had, if it is to have its first ones, or none any more, or if it
// is for all names, and its namespace has to wait.
func (c *collector) awaitTurn(listener *routing.Listener) {
	now, before := c.certificates[listener.Name], c.before.certificates[listener.Name]
	isAlike := (len(now) == 0) == (len(before) == 0)
	if isAlike && (listener.Hostname != "" || reflect.DeepEqual(now, before)) || !c.waits(listener.Namespace) {
		return
	}
	delete(c.files.plain, listener.Name)
	if c.certificates[listener.Name] = before; len(before) == 0 {
		delete(c.certificates, listener.Name)
	}
}

// waits reports whether what may take a reload has to wait for a namespace. It is looked at again soon.
func (c *collector) waits(namespace string) bool {
	if c.files.mayTake == nil || c.files.mayTake(namespace) {
		return false
	}
	c.changesAt(c.now.Add(checkInterval))
	return true
}

// awaitTurnOf leaves CA certificates as they were, if a namespace that verifies Services by them has to wait. Those of
// a ClusterTrustBundle are of no namespace: others and listeners may have them, too.
func (c *collector) awaitTurnOf(configMap, namespace string) {
	before, ok := c.before.authorities[configMap]
	if _, isBundle := model.TrustBundleOf(configMap); isBundle || bytes.Equal(c.authorities[configMap], before) || !c.waits(namespace) {
		return
	}
	if c.authorities[configMap] = before; !ok {
		delete(c.authorities, configMap)
	}
}

// areNew reports whether there is a key that was not there before.
func areNew(keys, before []routing.JWTKey) bool {
	return slices.ContainsFunc(keys, func(key routing.JWTKey) bool { return !slices.Contains(before, key) })
}

// keysWait reports whether new keys have to wait for the namespaces of all rules that need them.
func (c *collector) keysWait(rules tree.Map[routing.KeyUse]) bool {
	for rule := range rules.Values() {
		namespace, _, isAttached := strings.Cut(rule.Route, "/")
		if !isAttached || !c.waits(namespace) {
			return false
		}
	}
	return true
}
