// Package resources says which Kubernetes objects must exist for a Gateway: a Deployment or DaemonSet of proxy pods,
// the Service in front of them, the ServiceAccount, Role and RoleBinding of the agent in them, and a
// PodDisruptionBudget.
//
// In go a Gateway and the Options of the operator; out come typed apply configurations, for server-side apply: they
// hold the fields the operator owns and no others, so nothing has to repeat the API server's defaults. The functions
// are pure. What they return depends on spec.routes in no way: editing routes must never replace a pod. Naming another
// Secret or ConfigMap does: kubelet mounts them, so that no permission to read them is needed, and it mounts what the
// pod names.
package resources
