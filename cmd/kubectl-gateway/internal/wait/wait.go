package wait

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"gateway/cmd/kubectl-gateway/internal/cli"
)

const pollInterval = 250 * time.Millisecond

// Object is an object to wait for.
type Object struct {
	Kind            schema.GroupKind
	Namespace, Name string
	Client          dynamic.ResourceInterface
}

// String names the object.
func (o Object) String() string { return o.Kind.Kind + " " + o.Namespace + "/" + o.Name }

// plain is the object in the words of kubectl.
func (o Object) plain() string { return strings.ToLower(o.Kind.String()) + "/" + o.Name }

// For waits until every proxy runs the latest generation of each object, and prints what it waits for. done begins the
// error if they do not in time: what was done before.
func For(ctx context.Context, options *cli.Options, objects []Object, timeout time.Duration, done string) error {
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for _, o := range objects {
		switch why := waitFor(bounded, options, o); {
		case errors.Is(ctx.Err(), context.Canceled):
			return cli.Nof("interrupted: %s%s is not programmed: %s", done, o, why)
		case why != "":
			return cli.Nof("%s%s is not programmed after %s: %s", done, o, timeout, why)
		}
		options.Say("%s programmed", o.plain())
	}
	return nil
}

// waitFor waits until every proxy runs an object. It returns why not all do, "" if they do.
func waitFor(ctx context.Context, options *cli.Options, o Object) string {
	why := fmt.Sprintf("%s was not read", o)
	for said := ""; ctx.Err() == nil; {
		object, err := o.Client.Get(ctx, o.Name, metav1.GetOptions{})
		problem := ""
		if err == nil {
			var state State
			state, err = Look(object)
			problem = state.Why
		}
		switch {
		case err == nil && problem == "":
			return ""
		case err == nil:
			why = problem
		case ctx.Err() == nil:
			why = err.Error()
		}
		if why != said {
			_, _ = fmt.Fprintf(options.ErrOut, "waiting for %s: %s\n", o, why)
			said = why
		}
		select {
		case <-ctx.Done():
		case <-time.After(pollInterval):
		}
	}
	return why
}
