package convert

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"gateway/cmd/kubectl-gateway/internal/admission"
	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/source/ingress"
)

const long = `Convert Ingresses (networking.k8s.io/v1) to Gateway API objects, as ingress-nginx reads them: a Gateway for each
class, in the namespace of -n, and ListenerSets, HTTPRoutes, RouteFilters and policies in the namespaces of the
Ingresses. Give Services, IngressClasses and ConfigMaps too: for ports, for the default class, and for the settings of
ingress-nginx's controller. No cluster is needed. Standard error lists what is not carried over or differs; the exit
code is 3 if there is such a line.

Rules answer 503 if a setting is lost that may keep clients out: annotations about access, annotations of other
controllers, and policies for a Service or Ingress. --open names settings that may be lost.`

const examples = `  kubectl gateway convert -f ingresses.yaml -n gateways > gateways.yaml
  kubectl get ingresses,ingressclasses,services,configmaps -A -o yaml | kubectl gateway convert -f - -n gateways > gateways.yaml
  kubectl gateway convert -f ingresses/ | kubectl gateway render -f - --check`

type command struct {
	*cli.Options
	files       cli.Files
	name        string
	output      cli.Format
	class       string
	configMap   string
	certificate string
	open        []string
}

// NewCommand returns the command.
func NewCommand(options *cli.Options) *cobra.Command {
	c := &command{Options: options, output: "yaml"}
	cmd := &cobra.Command{
		Use: "convert -f FILE", Short: "Convert Ingresses to Gateway API objects", Long: long, Example: examples,
		Args: cli.MaxArgs(0), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error { return c.run() },
	}
	cli.AddFileFlags(cmd, &c.files, "file or directory with the objects, - for standard input")
	cmd.Flags().StringVar(&c.name, "name", "ingress", "name of the Gateway, to which the class is added, if there is one and --class does not name it")
	cli.AddFormatFlag(cmd, &c.output, "json or yaml")
	cmd.Flags().StringVar(&c.class, "class", "", "take the Ingresses of this class alone")
	cmd.Flags().StringVar(&c.configMap, "configmap", "", "NAMESPACE/NAME of the ConfigMap of ingress-nginx's controller, if neither its name nor a Deployment shows it")
	cmd.Flags().StringVar(&c.certificate, "default-ssl-certificate", "", "NAMESPACE/NAME of the Secret for hosts without one, as the flag of ingress-nginx's controller")
	cmd.Flags().StringSliceVar(&c.open, "open", nil, "let requests through without this: an annotation, a key of the ConfigMap, or KIND/NAMESPACE/NAME of a policy")
	return cmd
}

func (c *command) run() error {
	switch {
	case len(c.files.Paths) == 0:
		return cli.Usagef("name a file with -f")
	case len(c.name) > 55 || len(validation.IsDNS1035Label(c.name)) > 0:
		return cli.Usagef("%q is no name for a Gateway: use up to 55 lower-case letters, digits and '-', a letter first", c.name)
	}
	documents, namespace, err := c.Objects(c.files)
	if err != nil {
		return err
	}
	r := &reader{configMap: c.configMap, certificate: c.certificate}
	r.Name, r.Namespace, r.Class, r.Open = c.name, namespace, c.class, c.open
	if err := r.read(documents, namespace); err != nil {
		return err
	}
	result := ingress.Translate(r.Input)
	result.Notes = append(r.notes, result.Notes...)
	if err := c.nothing(r, result); err != nil {
		return err
	}
	objects, err := unstructuredOf(result.Objects)
	if err != nil {
		return err
	}
	for _, problem := range cli.Refused(objects, documents, namespace) {
		result.Notes = append(result.Notes, ingress.Note{Object: ingress.Subject{Kind: "Gateway", Namespace: namespace, Name: c.name}, Text: problem})
	}
	return c.print(r, result, objects)
}

// print prints the objects, the notes, and what there was.
func (c *command) print(r *reader, result *ingress.Result, objects []*unstructured.Unstructured) error {
	ingress.SortNotes(result.Notes)
	closed := false
	for _, note := range result.Notes {
		_, _ = fmt.Fprintln(c.ErrOut, note)
		closed = closed || note.Closes()
	}
	if closed {
		c.Warn("paths answer 503 where something is lost that may keep clients out. --open names what may be lost")
	}
	if r.Configuration == nil && result.Ingresses > 0 {
		c.Warn("the ConfigMap of ingress-nginx's controller is not known: give it, too, for the settings of all Ingresses")
	}
	if slices.ContainsFunc(objects, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == "ListenerSet" && o.GetNamespace() != r.Namespace
	}) {
		c.Warn("certificates of other namespaces than %s need gateway-key-server: see docs/how-to/key-server.md", r.Namespace)
	}
	if err := c.write(objects); err != nil {
		return err
	}
	summary := fmt.Sprintf("Ingresses: %d, objects made of them: %d", result.Ingresses, len(objects))
	if passedOver := r.passedOver + len(r.Ingresses) - result.Ingresses; passedOver > 0 {
		summary += fmt.Sprintf(", objects passed over: %d", passedOver)
	}
	if len(result.Notes) > 0 {
		return cli.Nof("%s, things that are not carried over as they were: %d", summary, len(result.Notes))
	}
	_, _ = fmt.Fprintln(c.ErrOut, summary)
	return nil
}

// write prints objects as YAML documents, or as a List in JSON.
func (c *command) write(objects []*unstructured.Unstructured) error {
	if c.output == "json" {
		list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "List"}}
		for _, object := range objects {
			list.Items = append(list.Items, *object)
		}
		return c.Print(c.output, list.UnstructuredContent())
	}
	for i, object := range objects {
		if i > 0 {
			c.Say("---")
		}
		if err := c.Print(c.output, object.Object); err != nil {
			return err
		}
	}
	return nil
}

// unstructuredOf returns objects as they are written.
func unstructuredOf(objects []ingress.Object) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for _, object := range objects {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return nil, fmt.Errorf("failed to write %s %s/%s: %w", object.GetObjectKind().GroupVersionKind().Kind, object.GetNamespace(), object.GetName(), err)
		}
		delete(content, "status")
		made := &unstructured.Unstructured{Object: content}
		_ = admission.Admit(made) // it sets the defaults, without which other managers of the fields have conflicts
		all = append(all, made)
	}
	return all, nil
}

// nothing returns an error if nothing was converted.
func (c *command) nothing(r *reader, result *ingress.Result) error {
	kind, paths := "Ingress", strings.Join(c.files.Paths, ", ")
	if c.class != "" {
		kind += " of class " + c.class
	}
	switch {
	case result.Ingresses == 0 && r.gatewayAPI:
		const message = "there is no %s in %s, but objects of the Gateway API, which the operator serves as they are, with the GatewayClass gateway"
		return cli.Usagef(message, kind, paths)
	case result.Ingresses == 0 && len(result.Notes) == 0:
		return fmt.Errorf("there is no %s in %s", kind, paths)
	}
	return nil
}
