package try

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"time"

	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/model"
	"gateway/internal/proxyconfig"
)

const (
	// watchInterval is how often the files are looked at.
	watchInterval = 200 * time.Millisecond
	// loadTimeout is how long HAProxy may take to take over a change.
	loadTimeout = 30 * time.Second
)

// welcome prints the addresses of the Gateway.
func (s *session) welcome() {
	s.log.say("Gateway %s/%s runs here:", s.objects.namespace, s.objects.name)
	for i := range s.objects.gateway.Listeners {
		listener := &s.objects.gateway.Listeners[i]
		where := s.objects.url(listener)
		if s.objects.unserved[listener.Name] {
			where = "not served: a certificate or CA cannot be used, see below"
		}
		s.log.say("  %-12s %s", listener.Name, where)
	}
	for _, backend := range s.objects.builtIn {
		s.log.say("Service %s has no endpoints here: the built-in backend answers", backend.Backend)
	}
	s.tell(s.objects)
	s.log.say("Save a file, and the change is live. Ctrl-C ends it.")
}

// tell prints what of the Gateway does not work here.
func (s *session) tell(o *objects) {
	for _, problem := range o.problems {
		s.log.say("not served: %s", problem)
	}
	for _, doubt := range o.doubts {
		s.log.say("warning: %s", doubt)
	}
	for _, absent := range o.absent {
		s.log.say("%s", absent)
	}
	s.WarnOfIdle()
}

// url returns a URL for a listener, with its hostname or the one of its first route.
func (o *objects) url(listener *model.Listener) string {
	if listener.Protocol == model.ProtocolTCP || listener.Protocol == model.ProtocolTLS {
		return fmt.Sprintf("127.0.0.1:%d (%s)", listener.Port, listener.Protocol)
	}
	scheme := "http"
	if listener.Protocol == model.ProtocolHTTPS {
		scheme = "https"
	}
	host := listener.Hostname
	for route := range o.gateway.Routes.Values() {
		if host == "" && slices.Contains(route.Listeners, listener.Name) {
			host = route.Hostnames[0]
		}
	}
	if host == "" || host[0] == '*' {
		return fmt.Sprintf("%s://127.0.0.1:%d/", scheme, listener.Port)
	}
	insecure := ""
	if scheme == "https" {
		insecure = " -k"
	}
	return fmt.Sprintf("curl%s --resolve %s:%d:127.0.0.1 %s://%[2]s:%[3]d/", insecure, host, listener.Port, scheme)
}

// follow applies changes of the files until ctx ends.
func (s *session) follow(ctx context.Context, files cli.Files, load func() (*objects, error)) error {
	before := fingerprint(files)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-s.exited:
			return fmt.Errorf("HAProxy ended: %w: %s", err, s.log.tail())
		case <-time.After(watchInterval):
		}
		now := fingerprint(files)
		if maps.Equal(before, now) {
			continue
		}
		before = now
		if err := s.change(ctx, load); err != nil {
			return err
		}
	}
}

// file is the state of a file that shows changes.
type file struct {
	modified time.Time
	size     int64
}

func fingerprint(files cli.Files) map[string]file {
	found := map[string]file{}
	paths, _ := files.List() // reading the files reports problems of a path
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil {
			found[path] = file{info.ModTime(), info.Size()}
		}
	}
	return found
}

// change applies a change of the files, and prints what it did. An error means that nothing can go on.
func (s *session) change(ctx context.Context, load func() (*objects, error)) error {
	began := time.Now()
	o, err := load()
	if err != nil {
		s.log.say("refused, the last good state goes on: %v", err)
		return nil
	}
	var was proxyconfig.Config
	if err := s.get(ctx, proxyconfig.Path, &was); err != nil {
		return err
	}
	before := s.generation
	remount := !reflect.DeepEqual(o.mounts(), s.mounted)
	if remount {
		s.stopAgent()
	}
	if err := s.apply(o); err != nil {
		return err
	}
	if remount {
		if err := s.startAgent(ctx); err != nil {
			return err
		}
	}
	s.tell(o)
	if s.generation == before {
		s.log.say("as in the files: the Gateway has not changed")
		return nil
	}
	return s.await(ctx, &was, began)
}

// await returns when the newest generation is live or refused, and prints which.
func (s *session) await(ctx context.Context, was *proxyconfig.Config, began time.Time) error {
	deadline := began.Add(loadTimeout)
	for {
		var now proxyconfig.Config
		err := s.get(ctx, proxyconfig.Path, &now)
		switch {
		case err == nil && now.Live.Generation() == s.generation:
			took := time.Since(began).Round(time.Millisecond)
			if len(now.Reloads) > 0 && (len(was.Reloads) == 0 || now.Reloads[0].Configuration != was.Reloads[0].Configuration) {
				s.log.say("live after %s, by a reload: %s", took, now.Reloads[0].Reason)
			} else {
				s.log.say("live after %s, without a reload", took)
			}
			return nil
		case err == nil && now.Wanted.Generation() == s.generation && now.Problem != "":
			s.log.say("refused, the last good state goes on: %s", now.Problem)
			return nil
		case time.Now().After(deadline):
			s.log.say("not live after %s: HAProxy does not take the change", loadTimeout)
			return nil
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// get asks the agent. The answer must be 200, and is decoded into a value unless that is nil.
func (s *session) get(ctx context.Context, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.health+path, nil)
	if err != nil {
		return fmt.Errorf("failed to ask the agent: %w", err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("failed to ask the agent: %w", err)
	}
	defer answer.Body.Close() //nolint:errcheck // it was read
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("failed to ask the agent: %s", answer.Status)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(answer.Body).Decode(into)
}
