package children

import (
	"context"
	"fmt"
	"slices"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	appv1 "gateway/api/app/v1"
	"gateway/internal/operator/resources"
	"gateway/internal/operator/status"
)

// Set keeps the children of all kinds. It may be used by several goroutines, for different Gateways.
type Set struct {
	serviceAccounts *kind[*corev1.ServiceAccount, *corev1ac.ServiceAccountApplyConfiguration]
	roles           *kind[*rbacv1.Role, *rbacv1ac.RoleApplyConfiguration]
	roleBindings    *kind[*rbacv1.RoleBinding, *rbacv1ac.RoleBindingApplyConfiguration]
	services        *kind[*corev1.Service, *corev1ac.ServiceApplyConfiguration]
	budgets         *kind[*policyv1.PodDisruptionBudget, *policyv1ac.PodDisruptionBudgetApplyConfiguration]
	deployments     *kind[*k8sappsv1.Deployment, *appsv1ac.DeploymentApplyConfiguration]
	daemonSets      *kind[*k8sappsv1.DaemonSet, *appsv1ac.DaemonSetApplyConfiguration]
	// options are the operator's settings that the children depend on.
	options resources.Options
}

// NewSet returns a Set that reads from the informers of labelled (all kinds but Services) and services, and writes
// through kube.
func NewSet(
	kube kubernetes.Interface, labelled, services informers.SharedInformerFactory, options resources.Options,
) *Set {
	return &Set{
		options: options,
		serviceAccounts: newKind("ServiceAccount", labelled.Core().V1().ServiceAccounts().Informer(),
			kube.CoreV1().ServiceAccounts, corev1ac.ExtractServiceAccount, stripAll),
		roles: newKind("Role", labelled.Rbac().V1().Roles().Informer(),
			kube.RbacV1().Roles, rbacv1ac.ExtractRole, stripAll),
		roleBindings: newKind("RoleBinding", labelled.Rbac().V1().RoleBindings().Informer(),
			kube.RbacV1().RoleBindings, rbacv1ac.ExtractRoleBinding, stripAll),
		services: newKind("Service", services.Core().V1().Services().Informer(),
			kube.CoreV1().Services, corev1ac.ExtractService, stripService),
		budgets: newKind("PodDisruptionBudget", labelled.Policy().V1().PodDisruptionBudgets().Informer(),
			kube.PolicyV1().PodDisruptionBudgets, policyv1ac.ExtractPodDisruptionBudget, stripAll),
		deployments: newKind("Deployment", labelled.Apps().V1().Deployments().Informer(),
			kube.AppsV1().Deployments, appsv1ac.ExtractDeployment, stripDeployment),
		daemonSets: newKind("DaemonSet", labelled.Apps().V1().DaemonSets().Informer(),
			kube.AppsV1().DaemonSets, appsv1ac.ExtractDaemonSet, stripDaemonSet),
	}
}

// keeper is the interface of all kinds of children.
type keeper interface {
	source() cache.SharedIndexInformer
	keep(obj any) (any, bool)
}

// kinds are all kinds, starting with those whose objects are the largest before Keep has stripped them.
func (s *Set) kinds() []keeper {
	return []keeper{s.deployments, s.daemonSets, s.services, s.budgets, s.roles, s.roleBindings, s.serviceAccounts}
}

// Informers returns the informers of all kinds, whose transform is Keep.
func (s *Set) Informers() ([]cache.SharedIndexInformer, error) {
	var informers []cache.SharedIndexInformer
	for _, kind := range s.kinds() {
		if err := kind.source().SetTransform(s.Keep); err != nil {
			return nil, fmt.Errorf("failed to set the transform of the cache of objects: %w", err)
		}
		informers = append(informers, kind.source())
	}
	return informers, nil
}

// Result is what Ensure found or made.
type Result struct {
	// Written are the kinds of the children that had to be written.
	Written []string
	// Service is the Gateway's Service; nil if it could not be made. It is only read.
	Service *corev1.Service
	// Pods is the state of the proxy pods by the Deployment or DaemonSet.
	Pods status.Pods
	// Refused is what the Gateway asks for and may not have.
	Refused []string
}

// Ensure makes every child of the Gateway as desired. A failure of one child stops only those that would use it: the
// RoleBinding waits until the ServiceAccount and the Role are the Gateway's, the Deployment or DaemonSet until all
// three are. Authors of Gateways choose their names, and must not run pods with a ServiceAccount of someone else. The
// errors are joined. Those for foreign objects are *NotOwnedErrors. A Service, Deployment or DaemonSet that the
// administrator does not allow is left as it is.
func (s *Set) Ensure(ctx context.Context, gateway *appv1.Gateway) (Result, error) {
	var result Result
	var failed error
	note := func(kind string, written bool, err error) {
		if written {
			result.Written = append(result.Written, kind)
		}
		switch {
		case failed == nil:
			failed = err
		case err != nil:
			failed = fmt.Errorf("%w; %w", failed, err)
		}
	}

	account, written, err := s.serviceAccounts.ensure(ctx, gateway, resources.DesiredServiceAccount(gateway))
	note(s.serviceAccounts.name, written, err)
	role, written, err := s.roles.ensure(ctx, gateway, resources.DesiredRole(gateway))
	note(s.roles.name, written, err)
	var binding *rbacv1.RoleBinding
	if account != nil && role != nil {
		binding, written, err = s.roleBindings.ensure(ctx, gateway, resources.DesiredRoleBinding(gateway))
		note(s.roleBindings.name, written, err)
	}
	refusals := s.options.Policy.Check(gateway)
	result.Refused = slices.Concat(refusals.Service, refusals.Pods)
	if result.Service = s.services.seen(gateway); len(refusals.Service) == 0 {
		result.Service, written, err = s.services.ensure(ctx, gateway, resources.DesiredService(gateway, result.Service))
		note(s.services.name, written, err)
	}
	mayRun := binding != nil && len(refusals.Pods) == 0
	if gateway.Spec.Pods.Kind == appv1.PodsKindDaemonSet {
		daemonSet := s.daemonSets.seen(gateway)
		if mayRun {
			daemonSet, written, err = s.daemonSets.ensure(ctx, gateway, resources.DesiredDaemonSet(gateway, s.options))
			note(s.daemonSets.name, written, err)
		}
		result.Pods = podsOfDaemonSet(daemonSet)
		return result, failed
	}
	_, written, err = s.budgets.ensure(ctx, gateway, resources.DesiredPodDisruptionBudget(gateway))
	note(s.budgets.name, written, err)
	deployment := s.deployments.seen(gateway)
	if mayRun {
		deployment, written, err = s.deployments.ensure(ctx, gateway, resources.DesiredDeployment(gateway, s.options))
		note(s.deployments.name, written, err)
	}
	result.Pods = podsOfDeployment(gateway, deployment)
	return result, failed
}
