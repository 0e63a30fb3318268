package apply

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/cmd/kubectl-gateway/internal/list"
)

const pollInterval = 250 * time.Millisecond

// waitFor waits until every proxy of the Gateways runs what was applied, and prints what it waits for.
func (c *command) waitFor(ctx context.Context, items []*item) error {
	clients, _, err := c.Connect()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	for _, i := range items {
		if i.Object.GroupVersionKind() != appv1.SchemeGroupVersion.WithKind("Gateway") {
			continue
		}
		if err := c.waitForOne(ctx, clients, i); err != nil {
			return err
		}
	}
	return nil
}

func (c *command) waitForOne(ctx context.Context, clients cli.Clients, i *item) error {
	why, said := "", ""
	for {
		gateway, err := clients.Gateways.AppV1().Gateways(i.Object.GetNamespace()).Get(ctx, i.Object.GetName(), metav1.GetOptions{})
		switch {
		case errors.Is(ctx.Err(), context.Canceled):
			return cli.Nof("interrupted: everything is applied, but %s is not programmed: %s", i, why)
		case ctx.Err() != nil:
			return cli.Nof("everything is applied, but %s is not programmed after %s: %s", i, c.timeout, why)
		case err != nil:
			why = err.Error()
		case cli.IsProgrammed(gateway):
			c.Say("%s programmed", i.name())
			return nil
		default:
			why = list.Problem(gateway)
		}
		if why != said {
			_, _ = fmt.Fprintf(c.ErrOut, "waiting for %s: %s\n", i, why)
			said = why
		}
		select {
		case <-ctx.Done():
		case <-time.After(pollInterval):
		}
	}
}
