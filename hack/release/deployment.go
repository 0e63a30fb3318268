package main

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const (
	// keyServer is the name of an optional Deployment.
	keyServer = "gateway-key-server"

	imageExpression = "<< $image >>"
	// imageVariable has the digest of the tag that the chart is released with.
	imageVariable = `{{- $image := printf "%%s:%%s" .Values.image.repository (.Values.image.tag | default (printf "%%s%s" .Chart.AppVersion)) }}`
)

// fields are what takes more than an expression: a list that goes on, and fields that are there if a value is.
var fields = strings.NewReplacer(
	"- MORE-FLAGS\n", "{{- if .Values.keyServer.enabled }}\n        - -key-server=gateway-key-server.{{ .Release.Namespace }}.svc:8443\n        {{- end }}\n"+
		"        {{- if .Values.clusterWatch.namespaces }}\n        - -cluster-watch-namespaces="+
		"{{ range $i, $name := .Values.clusterWatch.namespaces }}{{ if $i }},{{ end }}{{ $name }}{{ end }}\n        {{- end }}\n        {{- range .Values.flags }}\n        - {{ . | quote }}\n        {{- end }}\n",
	"- KEY-SERVER-FLAGS\n", "{{- with .Values.keyServer.namespaces }}\n        - -namespaces={{ join \",\" . }}\n        {{- end }}\n",
	"LABELS: OPTIONAL\n", "{{- with .Values.labels }}\n        {{- toYaml . | nindent 8 }}\n        {{- end }}\n",
	"imagePullSecrets: OPTIONAL\n", "{{- with .Values.imagePullSecrets }}\n      imagePullSecrets: {{- toYaml . | nindent 8 }}\n      {{- end }}\n",
	"priorityClassName: OPTIONAL\n", "{{- with .Values.priorityClassName }}\n      priorityClassName: {{ . | quote }}\n      {{- end }}\n",
	"nodeSelector: OPTIONAL\n", "{{- with .Values.nodeSelector }}\n      nodeSelector: {{- toYaml . | nindent 8 }}\n      {{- end }}\n",
	"tolerations: OPTIONAL\n", "{{- with .Values.tolerations }}\n      tolerations: {{- toYaml . | nindent 8 }}\n      {{- end }}\n",
)

// parametrizeOperator puts Helm's expressions into the operator's Deployment, and what was there into the defaults.
func parametrizeOperator(deployment map[string]any, defaults *values) error {
	replicas, _, err := unstructured.NestedFieldNoCopy(deployment, "spec", "replicas")
	if err != nil {
		return err
	}
	number, ok := replicas.(float64)
	if !ok {
		return fmt.Errorf("spec.replicas is %v", replicas)
	}
	defaults.Replicas = int64(number)
	deployment["spec"].(map[string]any)["replicas"] = "<< .Values.replicas >>"
	spec, container, err := podOf(deployment)
	if err != nil {
		return err
	}
	if defaults.Affinity, err = indented(spec["affinity"]); err != nil {
		return err
	}
	spec["affinity"] = "<<- toYaml .Values.affinity | nindent 8 >>"
	labels, _, err := unstructured.NestedFieldNoCopy(deployment, "spec", "template", "metadata", "labels")
	if err != nil {
		return err
	}
	labels.(map[string]any)["LABELS"] = "OPTIONAL"
	if defaults.Resources, err = indented(container["resources"]); err != nil {
		return err
	}
	container["resources"] = "<<- toYaml .Values.resources | nindent 10 >>"
	arguments := container["args"].([]any)
	for i, argument := range arguments {
		arguments[i] = strings.NewReplacer(devImage, imageExpression, devHAProxy, "<< .Values.haproxyImage >>").Replace(argument.(string))
	}
	container["args"] = append(arguments, "MORE-FLAGS")
	return nil
}

// parametrizeKeyServer does it for the key server's.
func parametrizeKeyServer(deployment map[string]any, defaults *values) error {
	_, container, err := podOf(deployment)
	if err != nil {
		return err
	}
	if defaults.KeyServerResources, err = indented(container["resources"]); err != nil {
		return err
	}
	defaults.KeyServerResources = strings.ReplaceAll("  "+defaults.KeyServerResources, "\n", "\n  ")
	container["resources"] = "<<- toYaml .Values.keyServer.resources | nindent 10 >>"
	container["args"] = append(container["args"].([]any), "KEY-SERVER-FLAGS")
	return nil
}

// podOf returns the spec of a Deployment's pods, and their container. It puts expressions into what all have.
func podOf(deployment map[string]any) (spec, container map[string]any, err error) {
	pod, _, err := unstructured.NestedFieldNoCopy(deployment, "spec", "template", "spec")
	if err != nil {
		return nil, nil, err
	}
	spec, ok := pod.(map[string]any)
	if !ok {
		return nil, nil, errors.New("there is no template of pods")
	}
	for _, field := range []string{"imagePullSecrets", "nodeSelector", "priorityClassName", "tolerations"} {
		spec[field] = "OPTIONAL"
	}
	container = spec["containers"].([]any)[0].(map[string]any)
	container["image"] = imageExpression
	return spec, container, nil
}

// indented returns the YAML of a value, as a field of values.yaml has it.
func indented(value any) (string, error) {
	raw, err := yaml.Marshal(value)
	return "  " + strings.ReplaceAll(strings.TrimSpace(string(raw)), "\n", "\n  "), err
}
