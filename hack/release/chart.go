package main

import (
	"bytes"
	"embed"
	"fmt"
	"path/filepath"
	"strings"
	"text/template"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// chartFiles are the files of the chart that no object of artifacts becomes.
//
//go:embed chart
var chartFiles embed.FS

// options are files of artifacts that the chart has if values say so.
var options = map[string][]string{
	".Values.networkPolicy":           {"network-policies/operator.yaml"},
	".Values.gatewayClass":            {"gateway-api/gatewayclass.yaml"},
	".Values.monitoring":              {"monitoring/monitors.yaml", "monitoring/rules.yaml"},
	".Values.clusterWatch.namespaces": {"cluster-watch/role.yaml"},
	".Values.keyServer.enabled":       {"key-server/key-server.yaml", "key-server/secrets.yaml"},

	"and .Values.keyServer.enabled (not .Values.keyServer.namespaces)": {"key-server/all-namespaces.yaml"},
	"and .Values.keyServer.enabled .Values.networkPolicy":              {"network-policies/key-server.yaml"},
}

// values are what the chart's values are by default.
type values struct {
	Version, AppVersion, Image, HAProxyImage string
	// Pin is what follows the tag of the image.
	Pin                                     string
	Replicas                                int64
	Resources, Affinity, KeyServerResources string
}

// writeChart writes the chart, with the objects of the files as templates.
func (r *release) writeChart(files []file) error {
	defaults := values{Version: strings.TrimPrefix(r.version, "v"), AppVersion: r.version, Image: r.image, HAProxyImage: r.haproxyImage, Pin: r.pin()}
	for _, f := range files {
		if err := r.writeTemplate(f, "", &defaults); err != nil {
			return err
		}
	}
	for option, names := range options {
		for _, name := range names {
			f, err := r.read(name)
			if err != nil {
				return err
			}
			if err := r.writeTemplate(f, option, &defaults); err != nil {
				return err
			}
		}
	}
	entries, err := chartFiles.ReadDir("chart")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		text, err := template.New(entry.Name()).Delims("<<", ">>").ParseFS(chartFiles, "chart/"+entry.Name())
		if err != nil {
			return err
		}
		var content bytes.Buffer
		if err := text.Execute(&content, defaults); err != nil {
			return err
		}
		if err := r.write(filepath.Join("chart/gateway", entry.Name()), content.String()); err != nil {
			return err
		}
	}
	return nil
}

// writeTemplate writes the objects of a file as a template. It is for the values of option alone, if there is one.
func (r *release) writeTemplate(f file, option string, defaults *values) error {
	objects, err := f.objects()
	if err != nil {
		return err
	}
	var content strings.Builder
	for _, object := range objects {
		text, err := objectTemplate(object, option, defaults)
		if err != nil {
			return fmt.Errorf("failed to make a template of %s: %w", f.name, err)
		}
		content.WriteString(text)
	}
	if content.Len() == 0 {
		return nil
	}
	return r.write(filepath.Join("chart/gateway/templates", strings.ReplaceAll(f.name, "/", "-")), content.String())
}

// expressions turns what was put into objects, as << .Values.replicas >>, into Helm's expressions. YAML needs no quotes
// for it. What looked like one before, as in the texts of alerts, stays what it is.
var expressions = strings.NewReplacer("{{", `{{ "{{" }}`, "<<", "{{", ">>", "}}")

func objectTemplate(object map[string]any, option string, defaults *values) (string, error) {
	u := unstructured.Unstructured{Object: object}
	// Helm makes the namespace: helm install --create-namespace.
	if u.GetKind() == "Namespace" {
		return "", nil
	}
	if u.GetNamespace() != "" {
		u.SetNamespace("<< .Release.Namespace >>")
	}
	switch u.GetKind() {
	case "CustomResourceDefinition":
		option = ".Values.crds"
		annotations := u.GetAnnotations()
		annotations["helm.sh/resource-policy"] = "keep" // or else helm uninstall would delete all Gateways
		u.SetAnnotations(annotations)
	case "RoleBinding", "ClusterRoleBinding":
		subjects, _, err := unstructured.NestedSlice(object, "subjects")
		if err != nil {
			return "", err
		}
		for _, subject := range subjects {
			subject.(map[string]any)["namespace"] = "<< .Release.Namespace >>"
		}
		object["subjects"] = subjects
	case "Deployment":
		parametrize := parametrizeOperator
		if u.GetName() == keyServer {
			parametrize = parametrizeKeyServer
		}
		if err := parametrize(object, defaults); err != nil {
			return "", err
		}
	}
	raw, err := yaml.Marshal(object)
	if err != nil {
		return "", err
	}
	text := "---\n" + fields.Replace(expressions.Replace(string(raw)))
	if u.GetKind() == "Deployment" {
		text = fmt.Sprintf(imageVariable, defaults.Pin) + "\n" + text
	}
	if option != "" {
		text = "{{- if " + option + " }}\n" + text + "{{- end }}\n"
	}
	return text, nil
}
