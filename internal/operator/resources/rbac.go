package resources

import (
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/proxypod"
)

// DesiredServiceAccount is the identity of the agents. The pods mount its token explicitly, into the agent's container
// only.
func DesiredServiceAccount(gateway *appv1.Gateway) *corev1ac.ServiceAccountApplyConfiguration {
	return corev1ac.ServiceAccount(proxypod.ChildName(gateway.Name), gateway.Namespace).
		WithLabels(childLabels(gateway.Name)).
		WithOwnerReferences(ownerReference(gateway)).
		WithAutomountServiceAccountToken(false)
}

// DesiredRole is all that the agents may do in the namespace: read their own Gateway and GatewayAttachments, report in
// GatewayProxies, read Services and EndpointSlices, read the objects of the Gateway API that belong to the Gateway, and
// tell their authors in Events what they ask.
// RBAC cannot limit the names of created objects: the ValidatingAdmissionPolicy in artifacts/rbac does. The operator's
// ClusterRole must contain all of these permissions, or the API server does not let it grant them.
func DesiredRole(gateway *appv1.Gateway) *rbacv1ac.RoleApplyConfiguration {
	role := rbacv1ac.Role(proxypod.ChildName(gateway.Name), gateway.Namespace).
		WithLabels(childLabels(gateway.Name)).
		WithOwnerReferences(ownerReference(gateway)).
		WithRules(
			rule(appv1.GroupName, "gateways").WithResourceNames(gateway.Name).WithVerbs("list", "watch"),
			rule(appv1.GroupName, proxypod.ResourceAttachments).WithVerbs("list", "watch"),
			rule(appv1.GroupName, "gatewayproxies").WithVerbs("create", "patch"),
			rule(appv1.GroupName, "gatewayproxies/status").WithVerbs("patch"),
			rule("", "services").WithVerbs("list", "watch"),
			rule("discovery.k8s.io", "endpointslices").WithVerbs("list", "watch"),
		)
	if parent := proxypod.Parent(gateway); parent != "" {
		role.WithRules(rule(gatewayv1.GroupName, "gateways").WithResourceNames(parent).WithVerbs("list", "watch"))
	}
	groups := attachedResources(gateway)
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		role.WithRules(rule(group, groups[group]...).WithVerbs("list", "watch"))
	}
	if len(groups) > 0 {
		role.WithRules(rule("", "events").WithVerbs("create")) // see package routetrace
	}
	return role
}

func rule(group string, resources ...string) *rbacv1ac.PolicyRuleApplyConfiguration {
	return rbacv1ac.PolicyRule().WithAPIGroups(group).WithResources(resources...)
}

// attachedResources are the resources that agents watch in the Gateway's namespace, by their group. For other
// namespaces, the ClusterRole gateway-attached in artifacts/rbac has the permissions.
func attachedResources(gateway *appv1.Gateway) map[string][]string {
	groups := map[string][]string{}
	if gateway.Status.Attachments == nil {
		return groups
	}
	for _, namespace := range gateway.Status.Attachments.Namespaces {
		if namespace.Name != gateway.Namespace {
			continue
		}
		for _, resource := range namespace.Resources {
			if group := proxypod.GroupOf(resource); !slices.Contains(groups[group], resource) {
				groups[group] = append(groups[group], resource)
			}
		}
	}
	return groups
}

// DesiredRoleBinding gives the Role to the ServiceAccount.
func DesiredRoleBinding(gateway *appv1.Gateway) *rbacv1ac.RoleBindingApplyConfiguration {
	return rbacv1ac.RoleBinding(proxypod.ChildName(gateway.Name), gateway.Namespace).
		WithLabels(childLabels(gateway.Name)).
		WithOwnerReferences(ownerReference(gateway)).
		WithRoleRef(rbacv1ac.RoleRef().
			WithAPIGroup(rbacv1.GroupName).
			WithKind("Role").
			WithName(proxypod.ChildName(gateway.Name))).
		WithSubjects(rbacv1ac.Subject().
			WithKind(rbacv1.ServiceAccountKind).
			WithName(proxypod.ChildName(gateway.Name)).
			WithNamespace(gateway.Namespace))
}
