package convert

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	k8sappsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/source/ingress"
)

// chooseConfiguration chooses the ConfigMap of ingress-nginx's controller: the one of --configmap, or the only one
// that a Deployment names or that has the name from the Helm chart. Other ConfigMaps of the chart have the same
// labels.
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

// isNamedAsChart reports whether ingress-nginx's Helm chart or manifests name the controller's ConfigMap like that,
// for a release with these words in its name.
func isNamedAsChart(name string) bool {
	return strings.Contains(name, "ingress-nginx") && strings.HasSuffix(name, "-controller")
}

// addController takes what a Deployment or DaemonSet of the controller says in its flags, and notes the others. kubelet
// puts the namespace into its flags.
func (r *reader) addController(document cli.Document) error {
	workload, _, err := decode[k8sappsv1.Deployment](document) // a DaemonSet has these fields, too
	if err != nil {
		return err
	}
	for i := range workload.Spec.Template.Spec.Containers {
		container := &workload.Spec.Template.Spec.Containers[i]
		flags := slices.Concat(container.Command, container.Args)
		if !slices.Contains(flags, "/nginx-ingress-controller") {
			continue
		}
		for _, flag := range flags {
			name, value, _ := strings.Cut(strings.TrimLeft(flag, "-"), "=")
			value = strings.ReplaceAll(value, "$(POD_NAMESPACE)", workload.Namespace)
			known, ok := ingress.FlagOf(name)
			switch {
			case !strings.HasPrefix(flag, "-"):
			case name == "configmap":
				r.configuring = append(r.configuring, value)
			case name == "default-ssl-certificate" && r.certificate == "":
				r.certificate = value
			case name == "tcp-services-configmap" || name == "udp-services-configmap":
				r.streams[value] = name
			case !ok:
				r.note(document, "flag --%s: it is not known", name)
			case known.IsNoted && value != "false":
				r.note(document, "flag --%s: %s", name, known.Text)
			}
		}
	}
	return nil
}

// noteStreams notes ConfigMaps with ports for TCP or UDP: those that flags name, and those with the names of the
// documentation and the Helm chart.
func (r *reader) noteStreams() {
	note := func(namespace, name, flag, format string, args ...any) {
		known, _ := ingress.FlagOf(flag)
		text := fmt.Sprintf(format, args...) + fmt.Sprintf(" (--%s): %s", flag, known.Text)
		r.notes = append(r.notes, ingress.Note{Object: ingress.Subject{Kind: "ConfigMap", Namespace: namespace, Name: name}, Text: text})
	}
	for full, flag := range r.streams {
		namespace, name, _ := strings.Cut(full, "/")
		if r.ConfigMaps[types.NamespacedName{Namespace: namespace, Name: name}] == nil {
			note(namespace, name, flag, "it is not in the files, and not carried over")
		}
	}
	for name, configMap := range r.ConfigMaps {
		flag := r.streams[name.String()]
		for _, protocol := range []string{"tcp", "udp"} {
			ofChart := configMap.Labels["app.kubernetes.io/name"] == "ingress-nginx" && strings.HasSuffix(name.Name, "-"+protocol)
			if flag == "" && (ofChart || name.Name == protocol+"-services") {
				flag = protocol + "-services-configmap"
			}
		}
		for _, port := range slices.Sorted(maps.Keys(configMap.Data)) {
			if flag != "" {
				note(name.Namespace, name.Name, flag, "port %s, for %s, is not carried over", port, configMap.Data[port])
			}
		}
	}
}

// readCertificate takes the Secret for hosts without one of their own.
func (r *reader) readCertificate() error {
	namespace, name, _ := strings.Cut(r.certificate, "/")
	if r.certificate != "" && (len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0) {
		return cli.Usagef("--default-ssl-certificate: %q is no NAMESPACE/NAME", r.certificate)
	}
	r.Certificate = types.NamespacedName{Namespace: namespace, Name: name}
	return nil
}
