package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	appsv1client "k8s.io/client-go/kubernetes/typed/apps/v1"
	authorizationv1client "k8s.io/client-go/kubernetes/typed/authorization/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	discoveryv1client "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"
	"sigs.k8s.io/yaml"

	clientset "gateway/generated/app/clientset/versioned"
	"gateway/internal/multicluster"
)

// FieldManager is the name under which the plugin owns the fields that it applies.
const FieldManager = "kubectl-gateway"

// Options are what every command has: where to read and write, and how to reach the cluster.
type Options struct {
	genericiooptions.IOStreams
	// Flags are kubectl's own: --kubeconfig, --context, --namespace and the rest.
	Flags *genericclioptions.ConfigFlags
	// idle is what WarnOfIdle warns of.
	idle []string
}

// NewOptions returns options whose flags have kubectl's defaults.
func NewOptions(streams genericiooptions.IOStreams) *Options {
	flags := genericclioptions.NewConfigFlags(true)
	flags.WrapConfigFn = func(config *rest.Config) *rest.Config {
		config.UserAgent = FieldManager
		// The API server's priority and fairness limits clients.
		config.QPS = -1
		return config
	}
	return &Options{IOStreams: streams, Flags: flags}
}

// Namespace returns the namespace to work in.
func (o *Options) Namespace() (string, error) {
	namespace, _, err := o.Flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", explainConfig(err)
	}
	return namespace, nil
}

// RESTConfig returns the configuration of clients of the cluster.
func (o *Options) RESTConfig() (*rest.Config, error) {
	raw, err := o.Flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, explainConfig(err)
	}
	// clientcmd would take localhost:8080 then, which is nobody's.
	if len(raw.Clusters) == 0 && *o.Flags.APIServer == "" && os.Getenv("KUBERNETES_SERVICE_HOST") == "" {
		return nil, errNoCluster
	}
	config, err := o.Flags.ToRESTConfig()
	if err != nil {
		return nil, explainConfig(err)
	}
	return config, nil
}

var errNoCluster = errors.New("no cluster is configured: set KUBECONFIG, or use --kubeconfig or --server")

func explainConfig(err error) error {
	if clientcmd.IsEmptyConfig(err) {
		return errNoCluster
	}
	return fmt.Errorf("failed to read how to reach the cluster: %w", err)
}

// Clients are the typed clients, and what they were made from.
type Clients struct {
	Config   *rest.Config
	Gateways clientset.Interface
	// Routes are for the Gateway API.
	Routes routesclient.Interface
	// Imports are for ServiceImports.
	Imports *multicluster.Client
	// Core and the others are for single groups of Kubernetes: a clientset of all groups takes long to compile.
	Core          *corev1client.CoreV1Client
	Apps          *appsv1client.AppsV1Client
	Authorization *authorizationv1client.AuthorizationV1Client
	Discovery     *discoveryv1client.DiscoveryV1Client
}

// Connect returns clients of the cluster, and the namespace to work in. It asks the cluster nothing yet.
func (o *Options) Connect() (clients Clients, namespace string, err error) {
	if namespace, err = o.Namespace(); err != nil {
		return Clients{}, "", err
	}
	if clients.Config, err = o.RESTConfig(); err != nil {
		return Clients{}, "", err
	}
	transport, err := rest.HTTPClientFor(clients.Config)
	if err != nil {
		return Clients{}, "", fmt.Errorf("failed to make a client: %w", err)
	}
	var errs [7]error
	clients.Gateways, errs[0] = clientset.NewForConfigAndClient(clients.Config, transport)
	clients.Routes, errs[1] = routesclient.NewForConfigAndClient(clients.Config, transport)
	clients.Core, errs[2] = corev1client.NewForConfigAndClient(clients.Config, transport)
	clients.Apps, errs[3] = appsv1client.NewForConfigAndClient(clients.Config, transport)
	clients.Authorization, errs[4] = authorizationv1client.NewForConfigAndClient(clients.Config, transport)
	clients.Discovery, errs[5] = discoveryv1client.NewForConfigAndClient(clients.Config, transport)
	clients.Imports, errs[6] = multicluster.NewForConfigAndClient(clients.Config, transport)
	if err = errors.Join(errs[:]...); err != nil {
		return Clients{}, "", fmt.Errorf("failed to make a client: %w", err)
	}
	return clients, namespace, nil
}

// Note writes a line for the user that is not part of the output, and that nothing has to be done about.
func (o *Options) Note(format string, args ...any) {
	_, _ = fmt.Fprintf(o.ErrOut, "note: "+format+"\n", args...)
}

// Warn is Note for something that is hardly meant.
func (o *Options) Warn(format string, args ...any) {
	_, _ = fmt.Fprintf(o.ErrOut, "warning: "+format+"\n", args...)
}

// Say writes a line of the output. It is no failure if the reader went away, as head does.
func (o *Options) Say(format string, args ...any) {
	_, _ = fmt.Fprintf(o.Out, format+"\n", args...)
}

// IsTerminal reports whether somebody looks at what is written.
func IsTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Format is the value of a flag for JSON or YAML; "" is for people.
type Format string

// AddFormatFlag adds -o to a command.
func AddFormatFlag(command *cobra.Command, format *Format, usage string) {
	command.Flags().VarP(format, "output", "o", usage)
	Complete(command, "output", "json", "yaml")
}

// Type names the type of the flag.
func (f *Format) Type() string { return "string" }

func (f *Format) String() string { return string(*f) }

// Set takes the flag's value.
func (f *Format) Set(value string) error {
	if value != "json" && value != "yaml" {
		return fmt.Errorf("unknown output %q: use json or yaml", value)
	}
	*f = Format(value)
	return nil
}

// Print writes a value in a format.
func (o *Options) Print(format Format, value any) error {
	content, err := json.MarshalIndent(value, "", "    ")
	if content = append(content, '\n'); format == "yaml" && err == nil {
		content, err = yaml.JSONToYAML(content)
	}
	if err != nil {
		return err
	}
	_, err = o.Out.Write(content)
	return err
}

// AddFileFlags adds -f and -R to a command.
func AddFileFlags(command *cobra.Command, files *Files, usage string) {
	command.Flags().StringSliceVarP(&files.Paths, "filename", "f", nil, usage)
	command.Flags().BoolVarP(&files.Recursive, "recursive", "R", false, "read the directories below, too")
	_ = command.MarkFlagFilename("filename", "yaml", "yml", "json") // which fails for unknown flags only
}

// AddAgainstFlag adds --against-cluster to a command that reads files.
func AddAgainstFlag(command *cobra.Command, files *Files) {
	const usage = "take what the files lack from the cluster, as far as you may read it: the Gateway, other routes, Services"
	command.Flags().BoolVar(&files.AgainstCluster, "against-cluster", false, usage)
}
