//go:build slow

package faults

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/must"
	"gateway/test/internal/faultproxy"
	"gateway/test/internal/testenv"
)

// sockets are proxies before HAProxy's sockets.
type sockets struct{ master, worker *faultproxy.Socket }

// startSocketStack is startStack with proxies between the agent and HAProxy. The configuration names the worker's
// socket, so both have to have the same path: the agent sees another directory there, in a mount namespace of its own.
func startSocketStack(t *testing.T, namespace string) (*stack, sockets) {
	t.Helper()
	s := setUp(t, namespace)
	s.operator = startOperator(t, s.proxy, namespace)
	seen := must.Get(os.MkdirTemp("/tmp", "hap"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(seen) })
	wrapper := []string{"unshare", "--mount"}
	if os.Getuid() != 0 {
		wrapper = append(wrapper, "--map-root-user")
	}
	wrapper = append(wrapper, "sh", "-ec", `mount --bind "$0" RUNDIR; exec "$@"`, seen)
	var proxies sockets
	s.pod = startPodAnd(t, s, "", wrapper, func(p *dataPlane) {
		proxies.master = faultproxy.StartSocket(t, filepath.Join(seen, "master.sock"), filepath.Join(p.paths.RunDir, "master.sock"))
		proxies.worker = faultproxy.StartSocket(t, filepath.Join(seen, "worker.sock"), filepath.Join(p.paths.RunDir, "worker.sock"))
	})
	s.expectProgrammed(t, soon, 1)
	return s, proxies
}

// TestHangingSockets: one of HAProxy's sockets takes connections and says nothing. Traffic goes on, the endpoints
// follow where they can, and what changed meanwhile is in force soon after.
func TestHangingSockets(t *testing.T) {
	t.Parallel()
	for socket, change := range map[string]string{
		"worker": `[{"op": "replace", "path": "/spec/routes/0/rules/1/matches/0/path/value", "value": "/edit-2"}]`,
		// This takes a reload.
		"master": `[{"op": "replace", "path": "/spec/routes/0/rules/1/matches/0/path/value", "value": "/edit-2"},
			{"op": "add", "path": "/spec/routes/0/rules/0/filters", "value": [{"type": "ResponseHeaderModifier", "responseHeaderModifier": {"set": [{"name": "a", "value": "b"}]}}]}]`,
	} {
		t.Run(socket, func(t *testing.T) {
			t.Parallel()
			s, proxies := startSocketStack(t, "hanging-"+socket)
			s.pod.expectAnswer(t, soon, "/edit-1", "next")
			agentLeaks := watchLeaks(t, s.pod.health)
			stopTraffic := s.pod.traffic(t)
			hanging := map[string]*faultproxy.Socket{"master": proxies.master, "worker": proxies.worker}[socket]
			end := hanging.Hang()
			defer end()
			before := len(hanging.Commands())
			generation := patchGateway(t, s.namespace, change).Generation
			testenv.Eventually(t, soon, "the agent asks", func(context.Context) error {
				if len(hanging.Commands()) == before {
					return fmt.Errorf("it has not")
				}
				return nil
			})
			if socket == "master" {
				// The worker does not depend on it.
				putEndpoint(t, s.namespace, "next", answering(t, "moved"))
				s.pod.expectAnswer(t, soon, "/edit-1", "moved")
			}
			<-time.After(faultLasts)
			ended := time.Now()
			end()
			want := map[string]string{"master": "moved", "worker": "next"}[socket]
			s.pod.expectAnswer(t, promised, "/edit-2", want)
			s.expectProgrammed(t, promised-time.Since(ended), generation)
			t.Logf("in force %v after the end", time.Since(ended).Round(time.Millisecond))
			stopTraffic()
			agentLeaks()
		})
	}
}

// TestAgentKilledAtEachStep: an agent that is killed at any command of a change, before or after HAProxy saw it, leaves
// nothing that the next one does not bring to the right end. Traffic goes on all the time.
func TestAgentKilledAtEachStep(t *testing.T) {
	t.Parallel()
	const reloads, commands = "reload", "commands"
	t.Run(reloads, func(t *testing.T) {
		t.Parallel()
		killAtEachStep(t, "agent-killed-reload", func(i int) string {
			return fmt.Sprintf(`[{"op": "replace", "path": "/spec/routes/0/rules/1/matches/0/path/value", "value": "/edit-%d"},
				{"op": "add", "path": "/spec/routes/0/rules/0/filters", "value": [{"type": "ResponseHeaderModifier",
				"responseHeaderModifier": {"set": [{"name": "header-%[1]d", "value": "b"}]}}]}]`, i)
		}, func(s sockets, kill func(before bool) faultproxy.SocketFault, before bool) {
			fault, commands := kill(before), 0
			s.master.Set(func(command string, forward func() []byte) []byte {
				// After these it asks again and again how it went.
				if commands++; commands > 4 {
					return forward()
				}
				return fault(command, forward)
			})
		})
	})
	t.Run(commands, func(t *testing.T) {
		t.Parallel()
		killAtEachStep(t, "agent-killed-commands", func(i int) string {
			return fmt.Sprintf(`[{"op": "replace", "path": "/spec/routes/0/rules/1/matches/0/path/value", "value": "/edit-%d"}]`, i)
		}, func(s sockets, kill func(before bool) faultproxy.SocketFault, before bool) {
			fault := kill(before)
			s.worker.Set(func(command string, forward func() []byte) []byte {
				if strings.HasPrefix(command, "show ") {
					return forward()
				}
				return fault(command, forward)
			})
		})
	})
}

// killAtEachStep makes changes, of which arm kills the agent at a step. It goes on until a change has no such step any
// more.
func killAtEachStep(
	t *testing.T, namespace string, patch func(i int) string,
	arm func(s sockets, kill func(before bool) faultproxy.SocketFault, before bool),
) {
	t.Helper()
	s, proxies := startSocketStack(t, namespace)
	stopTraffic := s.pod.traffic(t)
	edits, kills := 1, 0
	for step := 1; ; step++ {
		for _, before := range []bool{true, false} {
			left, killed := step, ""
			arm(proxies, func(before bool) faultproxy.SocketFault {
				return func(command string, forward func() []byte) []byte {
					if left--; left != 0 {
						return forward()
					}
					if !before {
						forward()
					}
					killed = strings.TrimSpace(strings.SplitN(command, "\n", 2)[0])
					s.pod.agent.Kill()
					return nil
				}
			}, before)
			edits++
			answer := fmt.Sprintf("next-%d", edits)
			putEndpoint(t, s.namespace, "next", answering(t, answer))
			generation := patchGateway(t, s.namespace, patch(edits)).Generation
			path := fmt.Sprintf("/edit-%d", edits)
			// Each step is only reached after those before it, and there is a last one.
			testenv.Eventually(t, soon, "the agent is killed or done", func(ctx context.Context) error {
				if s.pod.agent.Running() != nil {
					return nil
				}
				return s.reported(ctx, generation)
			})
			ended := s.pod.agent.Running() != nil
			proxies.master.Set(nil)
			proxies.worker.Set(nil)
			if !ended {
				if kills < 2 {
					t.Fatalf("the agent was killed %d times only", kills)
				}
				stopTraffic()
				s.pod.expectTidy(t)
				t.Logf("the agent was killed %d times", kills)
				return
			}
			kills++
			s.pod.leaveHalf(t, kills)
			started := time.Now()
			s.pod.agent = s.pod.start()
			s.pod.expectAnswer(t, soon, path, answer)
			s.expectProgrammed(t, soon, generation)
			t.Logf("killed at step %d, before=%v, %q: in force %v after the next one started", step, before, killed, time.Since(started).Round(time.Millisecond))
		}
	}
}

// leaveHalf leaves on the disk what an agent leaves there that is killed while it writes.
func (p *dataPlane) leaveHalf(t *testing.T, kills int) {
	t.Helper()
	half := filepath.Join(filepath.Dir(p.paths.ConfigDir), fmt.Sprintf("load-%06d-half", 1000*kills))
	must.Do(t, os.Mkdir(half, 0o750))
	must.Do(t, os.WriteFile(filepath.Join(half, "haproxy.cfg"), []byte("global\n    desc"), 0o600))
	must.Do(t, os.Symlink(filepath.Base(half), p.paths.ConfigDir+".next"))
}

// reported is nil if the pod reports the generation.
func (s *stack) reported(ctx context.Context, generation int64) error {
	report, err := server.App.AppV1().GatewayProxies(s.namespace).Get(ctx, pod, metav1.GetOptions{})
	if err == nil && report.Status.ObservedGeneration != generation {
		err = fmt.Errorf("the pod reports %+v", report.Status)
	}
	return err
}

// expectTidy waits until there is one configuration on the disk, and no old worker.
func (p *dataPlane) expectTidy(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, soon, "nothing is left over", func(context.Context) error {
		loads, err := filepath.Glob(filepath.Join(filepath.Dir(p.paths.ConfigDir), "load-*"))
		if err == nil && len(loads) != 1 {
			err = fmt.Errorf("there are the configurations %v", loads)
		}
		_, old, _ := strings.Cut(p.haproxy.Master("show proc"), "# old workers\n")
		if old, _, _ = strings.Cut(old, "#"); err == nil && strings.TrimSpace(old) != "" {
			err = fmt.Errorf("there are the old workers %s", old)
		}
		return err
	})
}

// TestReloadRefused: a new listener's port is taken by another process, so HAProxy refuses to load it. Everything else
// goes on, and the status says of the one thing what happened.
func TestReloadRefused(t *testing.T) {
	t.Parallel()
	s := startStack(t, "refused")
	taken := haproxytest.FreePort(t)
	listener := must.Get(net.Listen("tcp4", fmt.Sprintf(":%d", taken)))(t)
	defer listener.Close() //nolint:errcheck // it is closed below, too
	stopTraffic := s.pod.traffic(t)
	generation := patchGateway(t, s.namespace, fmt.Sprintf(`[{"op": "add", "path": "/spec/listeners/-", "value": {"name": "other", "port": %d, "protocol": "HTTP"}}]`, taken)).Generation
	testenv.Eventually(t, soon, "the status tells", func(ctx context.Context) error {
		gateway, err := server.App.AppV1().Gateways(s.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if c := condition(gateway, appv1.ConditionProgrammed); c.Reason != "LoadFailed" || c.ObservedGeneration != generation {
			return fmt.Errorf("Programmed is %+v", c)
		}
		for _, kind := range []string{appv1.ConditionAccepted, appv1.ConditionResolvedRefs} {
			if c := condition(gateway, kind); c.Status != metav1.ConditionTrue || c.ObservedGeneration != generation {
				return fmt.Errorf("%s is %+v", kind, c)
			}
		}
		return nil
	})
	putEndpoint(t, s.namespace, "next", answering(t, "moved"))
	s.pod.expectAnswer(t, soon, "/edit-1", "moved")
	<-time.After(2 * faultLasts)

	freed := time.Now()
	must.Do(t, listener.Close())
	s.expectProgrammed(t, promised, generation)
	t.Logf("in force %v after the port was free", time.Since(freed).Round(time.Millisecond))
	stopTraffic()
	s.pod.expectTidy(t)
}
