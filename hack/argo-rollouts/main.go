// Command argo-rollouts is a stand-in for the Gateway API plugin of Argo Rollouts, which cannot be had as a module. It
// does for one HTTPRoute what the plugin is documented to do: a label while a rollout is under way, weights of the
// canary and the stable Service, which add up to 100, and named rules with headers for the canary alone. All else of
// the route stays.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/rollout/trafficrouting/plugin/rpc"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	goplugin "github.com/hashicorp/go-plugin"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"
)

const inProgress = "rollouts.argoproj.io/gatewayapi-canary"

func main() {
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: goplugin.HandshakeConfig{ProtocolVersion: 1, MagicCookieKey: "ARGO_ROLLOUTS_RPC_PLUGIN", MagicCookieValue: "trafficrouter"},
		Plugins:         map[string]goplugin.Plugin{"RpcTrafficRouterPlugin": &rpc.RpcTrafficRouterPlugin{Impl: &plugin{}}},
	})
}

type plugin struct{ api versioned.Interface }

// InitPlugin reads KUBECONFIG.
func (p *plugin) InitPlugin() types.RpcError {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err == nil {
		p.api, err = versioned.NewForConfig(config)
	}
	return answer(err)
}

func (*plugin) Type() string { return "GatewayAPI" }

func (*plugin) UpdateHash(*v1alpha1.Rollout, string, string, []v1alpha1.WeightDestination) types.RpcError {
	return types.RpcError{}
}

func (*plugin) SetMirrorRoute(*v1alpha1.Rollout, *v1alpha1.SetMirrorRoute) types.RpcError {
	return types.RpcError{}
}

func (*plugin) VerifyWeight(*v1alpha1.Rollout, int32, []v1alpha1.WeightDestination) (types.RpcVerified, types.RpcError) {
	return types.Verified, types.RpcError{}
}

// SetWeight is a step of a rollout; 0 is also its end and its abort.
func (p *plugin) SetWeight(rollout *v1alpha1.Rollout, weight int32, _ []v1alpha1.WeightDestination) types.RpcError {
	weights := map[string]int32{rollout.Spec.Strategy.Canary.CanaryService: weight, rollout.Spec.Strategy.Canary.StableService: 100 - weight}
	return p.change(rollout, func(route *gatewayv1.HTTPRoute) {
		metav1.SetMetaDataLabel(&route.ObjectMeta, inProgress, "in-progress")
		if weight == 0 {
			delete(route.Labels, inProgress)
		}
		for _, rule := range route.Spec.Rules {
			for i := range rule.BackendRefs {
				if value, is := weights[string(rule.BackendRefs[i].Name)]; is && !managed(rollout, rule) {
					rule.BackendRefs[i].Weight = &value
				}
			}
		}
	})
}

// SetHeaderRoute has requests with some headers go to the canary, or not any more if it names none.
func (p *plugin) SetHeaderRoute(rollout *v1alpha1.Rollout, headers *v1alpha1.SetHeaderRoute) types.RpcError {
	name := gatewayv1.SectionName(headers.Name)
	return p.change(rollout, func(route *gatewayv1.HTTPRoute) {
		rules := slices.DeleteFunc(route.Spec.Rules, func(rule gatewayv1.HTTPRouteRule) bool { return ptr.Deref(rule.Name, "") == name })
		canary := func(ref gatewayv1.HTTPBackendRef) bool {
			return string(ref.Name) == rollout.Spec.Strategy.Canary.CanaryService
		}
		from := slices.IndexFunc(rules, func(rule gatewayv1.HTTPRouteRule) bool {
			return slices.ContainsFunc(rule.BackendRefs, canary) && !managed(rollout, rule)
		})
		route.Spec.Rules = rules
		if len(headers.Match) == 0 || from < 0 {
			return
		}
		rule := rules[from].DeepCopy()
		rule.Name = &name
		rule.BackendRefs = slices.DeleteFunc(rule.BackendRefs, func(ref gatewayv1.HTTPBackendRef) bool { return !canary(ref) })
		rule.BackendRefs[0].Weight = nil
		for i := range rule.Matches {
			for _, header := range headers.Match {
				rule.Matches[i].Headers = append(rule.Matches[i].Headers, gatewayv1.HTTPHeaderMatch{
					Type: ptr.To(gatewayv1.HeaderMatchExact), Name: gatewayv1.HTTPHeaderName(header.HeaderName), Value: header.HeaderValue.Exact,
				})
			}
		}
		route.Spec.Rules = append(route.Spec.Rules, *rule)
	})
}

func (p *plugin) RemoveManagedRoutes(rollout *v1alpha1.Rollout) types.RpcError {
	return p.change(rollout, func(route *gatewayv1.HTTPRoute) {
		route.Spec.Rules = slices.DeleteFunc(route.Spec.Rules, func(rule gatewayv1.HTTPRouteRule) bool { return managed(rollout, rule) })
	})
}

// managed reports whether a rule is one of the rollout's.
func managed(rollout *v1alpha1.Rollout, rule gatewayv1.HTTPRouteRule) bool {
	return rule.Name != nil && slices.ContainsFunc(rollout.Spec.Strategy.Canary.TrafficRouting.ManagedRoutes,
		func(route v1alpha1.MangedRoutes) bool { return route.Name == string(*rule.Name) })
}

// change updates the whole route, again if somebody else was faster.
func (p *plugin) change(rollout *v1alpha1.Rollout, edit func(*gatewayv1.HTTPRoute)) types.RpcError {
	var config struct{ HTTPRoute string }
	if err := json.Unmarshal(rollout.Spec.Strategy.Canary.TrafficRouting.Plugins["argoproj-labs/gatewayAPI"], &config); err != nil {
		return answer(err)
	}
	ctx, routes := context.Background(), p.api.GatewayV1().HTTPRoutes(rollout.Namespace)
	return answer(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		route, err := routes.Get(ctx, config.HTTPRoute, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("failed to get HTTPRoute %s/%s: %w", rollout.Namespace, config.HTTPRoute, err)
		}
		edit(route)
		_, err = routes.Update(ctx, route, metav1.UpdateOptions{})
		return err
	}))
}

func answer(err error) types.RpcError {
	if err == nil {
		return types.RpcError{}
	}
	return types.RpcError{ErrorString: err.Error()}
}
