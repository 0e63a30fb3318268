package proxyconfig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"

	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/proxyconfig"
	"gateway/internal/proxypod"
)

// ask returns what a pod says of itself.
func ask(ctx context.Context, clients cli.Clients, pod *corev1.Pod) (*proxyconfig.Config, error) {
	pages, err := clients.FromPod(ctx, pod, cli.Page{Port: proxypod.HealthPort, Path: proxyconfig.Path})
	var status cli.StatusError
	switch {
	case errors.As(err, &status) && status == http.StatusNotFound:
		return nil, errors.New("its agent is of a version that does not tell")
	case err != nil:
		return nil, err
	}
	config := &proxyconfig.Config{}
	if err := json.Unmarshal(pages[0], config); err != nil {
		return nil, fmt.Errorf("its agent's answer is not understood: %w", err)
	}
	return config, nil
}
