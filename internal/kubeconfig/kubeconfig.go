// Package kubeconfig finds out how to talk to the cluster.
package kubeconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Load returns how to talk to the cluster: by the given kubeconfig file, or else those in $KUBECONFIG, or else
// ~/.kube/config, or else, in a pod, by its ServiceAccount. A master that is not "" is used as the API server's URL.
func Load(master, kubeconfig string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	if kubeconfig != "" && missing(kubeconfig) {
		return nil, fmt.Errorf("the kubeconfig file %s does not exist: pass the path of yours with -kubeconfig", kubeconfig)
	}
	if env := os.Getenv(clientcmd.RecommendedConfigPathEnvVar); kubeconfig == "" && env != "" && missing(rules.Precedence...) {
		return nil, fmt.Errorf("$KUBECONFIG is %s, which does not exist: set it to the path of yours, or pass -kubeconfig", env)
	}
	rules.WarnIfAllMissing = false
	overrides := &clientcmd.ConfigOverrides{}
	overrides.ClusterInfo.Server = master
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("there is no cluster to work on: pass -kubeconfig, or set $KUBECONFIG")
	}
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig cannot be used: %w", err)
	}
	return config, nil
}

// missing reports whether none of the files exists.
func missing(paths ...string) bool {
	for _, path := range paths {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}
