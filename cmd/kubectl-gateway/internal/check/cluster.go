package check

import (
	"context"
	"fmt"
	"strings"

	k8sappsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/version"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/cli"
)

// minimumVersion is the oldest Kubernetes that the project is for, as the README says.
const minimumVersion = "1.31"

// server checks the version of the API server.
func server(_ context.Context, clients cli.Clients, _ string) ([]Finding, error) {
	info, err := clients.Gateways.Discovery().ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("failed to ask for the version of the API server: %w", err)
	}
	return []Finding{serverVersion(info.GitVersion)}, nil
}

func serverVersion(text string) Finding {
	found := Finding{Level: OK, About: "API server", Says: "Kubernetes " + text}
	parsed, err := version.ParseGeneric(text)
	switch {
	case err != nil:
		found.Level, found.Says = Warning, fmt.Sprintf("its version %q is not understood", text)
	case parsed.LessThan(version.MustParseGeneric(minimumVersion)):
		found.Level, found.Do = Wrong, "Use Kubernetes "+minimumVersion+" or a newer one."
	}
	return found
}

// operators checks the operators of all namespaces.
func operators(ctx context.Context, clients cli.Clients, _ string) ([]Finding, error) {
	deployments, err := clients.Operators(ctx)
	if apierrors.IsForbidden(err) {
		return []Finding{{
			Level: Warning, About: "operator", Says: "not known: you may not list Deployments in all namespaces",
			Do: "Ask an administrator of the cluster.",
		}}, nil
	}
	if err != nil {
		return nil, err
	}
	if len(deployments) == 0 {
		return []Finding{{
			Level: Wrong, About: "operator", Says: "there is none: no Deployment has the label " + cli.OperatorSelector,
			Do: "Install it: kubectl apply --server-side -f install.yaml",
		}}, nil
	}
	var findings []Finding
	for i := range deployments {
		findings = append(findings, operator(&deployments[i]))
	}
	return findings, nil
}

// operator checks an operator. One replica works, the others wait for its lease.
func operator(deployment *k8sappsv1.Deployment) Finding {
	wanted := cli.Replicas(deployment)
	found := Finding{
		Level: OK, About: fmt.Sprintf("operator %s/%s", deployment.Namespace, deployment.Name),
		Says: fmt.Sprintf("%d of %d replicas are ready", deployment.Status.ReadyReplicas, wanted),
	}
	switch ready := deployment.Status.ReadyReplicas; {
	case ready >= wanted && wanted > 0:
		return found
	case ready == 0:
		found.Level = Wrong
	default:
		found.Level = Warning
	}
	for _, condition := range deployment.Status.Conditions {
		failing := condition.Type == k8sappsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue
		if failing || condition.Type == k8sappsv1.DeploymentProgressing && condition.Status == corev1.ConditionFalse {
			found.Details = append(found.Details, condition.Message)
		}
	}
	found.Do = fmt.Sprintf("See its pods and their log: kubectl -n %s describe pods -l %s; kubectl -n %s logs deployment/%s",
		deployment.Namespace, cli.OperatorSelector, deployment.Namespace, deployment.Name)
	if wanted == 0 {
		found.Do = fmt.Sprintf("Start it: kubectl -n %s scale deployment/%s --replicas=2", deployment.Namespace, deployment.Name)
	}
	return found
}

// permission is a permission that commands of the plugin need.
type permission struct {
	verb, group, resource, subresource string
	commands                           string
}

var needed = []permission{
	{"get", appv1.GroupName, "gateways", "", "get, explain, render, proxy-config, logs, trace"},
	{"list", appv1.GroupName, "gateways", "", "list, check, routes, bundle, dashboard"},
	{"list", "", "services", "", "explain, render"},
	{"list", "discovery.k8s.io", "endpointslices", "", "explain, render"},
	{"get", "", "configmaps", "", "explain, render"},
	{"list", "", "pods", "", "proxy-config, logs, trace, routes, bundle, dashboard"},
	{"create", "", "pods", "portforward", "proxy-config, trace, bundle, dashboard"},
	{"get", "", "pods", "log", "logs, routes, bundle, trace --next"},
	{"patch", appv1.GroupName, "gateways", "", "apply"},
}

// permissions checks what the user may do.
func permissions(ctx context.Context, clients cli.Clients, namespace string) ([]Finding, error) {
	found := Finding{Level: OK, About: "permissions", Says: "you may use every command in " + where(namespace)}
	for _, p := range needed {
		allowed, err := clients.May(ctx, authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: p.verb, Group: p.group, Resource: p.resource, Subresource: p.subresource,
		})
		if err != nil {
			return nil, err
		}
		if !allowed {
			name := strings.TrimSuffix(p.resource+"/"+p.subresource, "/")
			found.Details = append(found.Details, fmt.Sprintf("%s %s: for %s", p.verb, name, p.commands))
		}
	}
	if len(found.Details) > 0 {
		found.Level, found.Says = Warning, "you may not do everything in "+where(namespace)
		found.Do = "Ask for a Role that allows what you need."
	}
	return []Finding{found}, nil
}
