// Package clienttest makes fake clients for tests.
package clienttest

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	appv1 "gateway/api/app/v1"
	gatewayfake "gateway/generated/app/clientset/versioned/fake"
)

// NewGateways returns a fake clientset that holds the Gateways and can take more. Its tracker finds objects by the plural of their kind,
// which it takes, by rules of English, to be "gatewaies".
func NewGateways(objects ...runtime.Object) *gatewayfake.Clientset {
	gateways := gatewayfake.NewClientset(objects...)
	gateways.PrependReactor("*", "gateways", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return clienttesting.ObjectReaction(gateways.Tracker())(GuessPlural(action))
	})
	gateways.PrependWatchReactor("gateways", func(action clienttesting.Action) (bool, watch.Interface, error) {
		watcher, err := gateways.Tracker().Watch(GuessPlural(action).GetResource(), action.GetNamespace())
		return true, watcher, err
	})
	return gateways
}

// GuessPlural renames the resource of an action to what the fake's tracker takes the plural of Gateway to be.
func GuessPlural(action clienttesting.Action) clienttesting.Action {
	guess, _ := meta.UnsafeGuessKindToResource(appv1.SchemeGroupVersion.WithKind("Gateway"))
	switch renamed := action.(type) {
	case clienttesting.CreateActionImpl:
		renamed.Resource = guess
		return renamed
	case clienttesting.GetActionImpl:
		renamed.Resource = guess
		return renamed
	case clienttesting.ListActionImpl:
		renamed.Resource = guess
		return renamed
	case clienttesting.UpdateActionImpl:
		renamed.Resource = guess
		return renamed
	case clienttesting.PatchActionImpl:
		renamed.Resource = guess
		return renamed
	case clienttesting.DeleteActionImpl:
		renamed.Resource = guess
		return renamed
	case clienttesting.WatchActionImpl:
		renamed.Resource = guess
		return renamed
	}
	return action
}
