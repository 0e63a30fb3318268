// Program kube is every Kubernetes program of the local cluster in one
// executable: one link instead of six, and most of the code shared.
//
// It decides by the base name it was called by, so that symbolic links to it
// named kube-apiserver, kubelet, kubectl and so on are those programs; called
// by any other name, its first argument says which one to be.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// commands holds constructors, not commands: building one registers flags and
// reads os.Args, so only the one that runs may be built.
var commands = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kube-proxy":              proxy.NewProxyCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
	"kubectl":                 kubectl.NewDefaultKubectlCommand,
}

func main() {
	name := filepath.Base(os.Args[0])
	if commands[name] == nil {
		if len(os.Args) < 2 || commands[os.Args[1]] == nil {
			fmt.Fprintf(os.Stderr, "usage: %s PROGRAM [ARGUMENT...]\nPROGRAM is one of: %s\n", name, names())
			os.Exit(2)
		}
		os.Args = os.Args[1:]
		name = os.Args[0]
	}
	if name == "kubectl" {
		// kubectl words its own errors and chooses its exit code from them.
		if err := cli.RunNoErrOutput(commands[name]()); err != nil {
			util.CheckErr(err)
		}
		return
	}
	os.Exit(cli.Run(commands[name]()))
}

func names() string {
	var all []string
	for name := range commands {
		all = append(all, name)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}
