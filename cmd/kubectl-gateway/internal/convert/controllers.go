package convert

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

	"gateway/cmd/kubectl-gateway/internal/cli"
)

// chooseConfiguration chooses the ConfigMap of ingress-nginx's controller: that of --configmap, or the only one that a
// Deployment names or that has the name of the Helm chart's. Other ConfigMaps of the chart have the same labels.
func (r *reader) chooseConfiguration() error {
	candidates, labelled := r.configuring, []string(nil)
	for name, configMap := range r.ConfigMaps {
		switch {
		case isNamedAsChart(name.Name):
			candidates = append(candidates, name.String())
		case configMap.Labels["app.kubernetes.io/name"] == "ingress-nginx":
			labelled = append(labelled, name.String())
		}
	}
	slices.Sort(candidates)
	slices.Sort(labelled)
	if candidates = slices.Compact(candidates); r.configMap != "" {
		labelled, candidates = append(candidates, labelled...), []string{r.configMap}
	}
	const which = "the ConfigMap of ingress-nginx's controller"
	switch {
	case len(candidates) > 1:
		return cli.Usagef("several may be %s: name one by --configmap, and its Ingresses by --class: %s", which, strings.Join(candidates, ", "))
	case len(candidates) == 1:
		namespace, name, _ := strings.Cut(candidates[0], "/")
		if r.Configuration = r.ConfigMaps[types.NamespacedName{Namespace: namespace, Name: name}]; r.Configuration != nil {
			return nil
		}
		found := ""
		if len(labelled) > 0 {
			found = ", which have " + strings.Join(labelled, ", ")
		}
		return cli.Usagef("%s is %s: there is none of this name in the files%s", which, candidates[0], found)
	case len(labelled) > 0:
		return cli.Usagef("name %s by --configmap. Some have its labels: %s", which, strings.Join(labelled, ", "))
	}
	return nil
}

// isNamedAsChart reports whether a name is one that ingress-nginx's Helm chart and manifests give the controller's
// ConfigMap: that of the release with these words.
func isNamedAsChart(name string) bool {
	return strings.Contains(name, "ingress-nginx") && strings.HasSuffix(name, "-controller")
}

// addController notes the ConfigMaps that a Deployment or DaemonSet of the controller names. kubelet puts the namespace
// into its flags.
func (r *reader) addController(document cli.Document) error {
	workload, _, err := decode[appsv1.Deployment](document) // a DaemonSet has these fields, too
	if err != nil {
		return err
	}
	for i := range workload.Spec.Template.Spec.Containers {
		container := &workload.Spec.Template.Spec.Containers[i]
		if flags := slices.Concat(container.Command, container.Args); slices.Contains(flags, "/nginx-ingress-controller") {
			for _, flag := range flags {
				if value, ok := strings.CutPrefix(strings.TrimLeft(flag, "-"), "configmap="); ok {
					r.configuring = append(r.configuring, strings.ReplaceAll(value, "$(POD_NAMESPACE)", workload.Namespace))
				}
			}
		}
	}
	return nil
}
