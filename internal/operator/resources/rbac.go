package resources

import (
	rbacv1 "k8s.io/api/rbac/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/proxypod"
)

// DesiredServiceAccount is the identity of the agents. Its token is mounted by the pods explicitly, into the agent's
// container only.
func DesiredServiceAccount(gateway *appv1.Gateway) *corev1ac.ServiceAccountApplyConfiguration {
	return corev1ac.ServiceAccount(proxypod.ChildName(gateway.Name), gateway.Namespace).
		WithLabels(childLabels(gateway.Name)).
		WithOwnerReferences(ownerReference(gateway)).
		WithAutomountServiceAccountToken(false)
}

// DesiredRole is all that the agents may do: read their own Gateway, report in GatewayProxies, and read Services and EndpointSlices of
// the namespace. RBAC cannot limit what is created by name: the ValidatingAdmissionPolicy in artifacts/rbac does. The operator's
// ClusterRole must hold every one of these permissions, or the API server does not let it grant them.
func DesiredRole(gateway *appv1.Gateway) *rbacv1ac.RoleApplyConfiguration {
	return rbacv1ac.Role(proxypod.ChildName(gateway.Name), gateway.Namespace).
		WithLabels(childLabels(gateway.Name)).
		WithOwnerReferences(ownerReference(gateway)).
		WithRules(
			rbacv1ac.PolicyRule().
				WithAPIGroups(appv1.GroupName).
				WithResources("gateways").
				WithResourceNames(gateway.Name).
				WithVerbs("list", "watch"),
			rbacv1ac.PolicyRule().
				WithAPIGroups(appv1.GroupName).
				WithResources("gatewayproxies").
				WithVerbs("create", "patch"),
			rbacv1ac.PolicyRule().
				WithAPIGroups("").
				WithResources("services").
				WithVerbs("list", "watch"),
			rbacv1ac.PolicyRule().
				WithAPIGroups("discovery.k8s.io").
				WithResources("endpointslices").
				WithVerbs("list", "watch"),
		)
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
