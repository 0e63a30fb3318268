package agent

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// late is how many connections a load balancer sends to a pod after this one has told that it is to stop.
const late = 40

// TestALoadBalancerThatNoticesLate: while a load balancer has not noticed that a pod is to stop, the pod takes its
// connections, and sends clients away after one answer. No request is lost, also if HAProxy reloads meanwhile.
func TestALoadBalancerThatNoticesLate(t *testing.T) {
	t.Parallel()
	leaving, staying := newStopping(t), newStopping(t)
	balancer := &balancer{pods: []*stopping{leaving, staying}, late: late}
	client := &keptAlive{t: t, balancer: balancer}
	for range 20 {
		client.ask()
	}
	leaving.tell <- syscall.SIGUSR1
	leaving.await("the pod is not ready", func() bool { return leaving.agent.probes.ready() != nil })
	leaving.expectClosing()
	balancer.stopping.Store(true)
	for balancer.sent.Load() < late/2 {
		client.ask()
	}
	running := leaving.process()
	leaving.expectReport(leaving.edit(leaving.reloading("api", "other")), "")
	if leaving.process() == running {
		t.Fatal("HAProxy did not reload")
	}
	leaving.expectClosing()
	unfinished := leaving.dial()
	_, err := io.WriteString(unfinished, "GET / HTTP/1.1\r\n")
	leaving.must(err)
	for balancer.sent.Load() < late {
		client.ask()
	}
	if err := leaving.agent.probes.serving(time.Now()); err != nil {
		t.Errorf("kube-proxy would send nothing to the pod: %v", err)
	}
	// The balancer has noticed; the stopDelay is over.
	leaving.must(syscall.Kill(leaving.haproxy.PID, syscall.SIGUSR1))
	leaving.eventually("the pod accepts no connection", func() error {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", leaving.port))
		if err != nil {
			return nil
		}
		_ = conn.Close()
		return errors.New("it does")
	})
	for range 20 {
		client.ask()
	}
	_, err = io.WriteString(unfinished, "Host: x\r\n\r\n")
	leaving.must(err)
	response, err := http.ReadResponse(bufio.NewReader(unfinished), nil)
	leaving.must(err)
	defer response.Body.Close() //nolint:errcheck // the connection is closed, too
	if response.StatusCode != http.StatusOK {
		t.Errorf("a request that was under way: %s", response.Status)
	}
	if client.moved == 0 {
		t.Error("no connection was closed after its answer")
	}
}

// TestAStoppingPodLeavesBeforeItStops: kubelet and all who send connections know that a pod is about to take none.
func TestAStoppingPodLeavesBeforeItStops(t *testing.T) {
	for stopDelay, want := range map[time.Duration]time.Duration{
		0: 0, 2 * time.Second: time.Second, 10 * time.Second: 6 * time.Second, time.Minute: 56 * time.Second,
	} {
		if got := servesFor(stopDelay); got != want {
			t.Errorf("with a stopDelay of %s, a pod serves for %s, want %s", stopDelay, got, want)
		}
	}
	p, told := newProbes("", true), time.Now()
	p.observe(true, "", 0)
	p.stop(told.Add(servesFor(10 * time.Second)))
	if err := p.serving(told.Add(5 * time.Second)); err != nil {
		t.Errorf("after 5 s: %v", err)
	}
	if p.serving(told.Add(6*time.Second)) == nil {
		t.Error("after 6 s, it says that it serves")
	}
}

// TestAnUpgradeWhileThePodIsToStop: a WebSocket is no connection to close after its answer.
func TestAnUpgradeWhileThePodIsToStop(t *testing.T) {
	t.Parallel()
	s := newStopping(t)
	s.tell <- syscall.SIGUSR1
	s.expectClosing()
	conn := s.dial()
	_, err := io.WriteString(conn, "GET /upgrade HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
	s.must(err)
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, nil)
	s.must(err)
	defer response.Body.Close() //nolint:errcheck // the connection is closed, too
	if got := response.Header.Get("Connection"); response.StatusCode != http.StatusSwitchingProtocols || got != "upgrade" {
		t.Fatalf("the answer is %d with Connection: %s", response.StatusCode, got)
	}
	_, err = io.WriteString(conn, "hello\n")
	s.must(err)
	if line, err := reader.ReadString('\n'); line != "hello\n" {
		t.Errorf("the other side says %q, %v", line, err)
	}
}

// stopping is a pod that can be told to stop.
type stopping struct {
	*rig
	tell chan os.Signal
}

func newStopping(t *testing.T) *stopping {
	t.Helper()
	s := &stopping{newRig(t), make(chan os.Signal, 1)}
	s.options.Stopping, s.options.StopDelay = s.tell, time.Hour
	s.createService("api")
	s.createSlice("api", "one", newEndpointFunc(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/upgrade" {
			return
		}
		conn, rest, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err) // the server speaks HTTP/1.1
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
		_, _ = io.Copy(conn, rest)
	}))
	s.createGateway(s.spec("api"))
	s.startAgent()
	s.startHAProxy()
	s.eventually("the pod is ready", s.agent.probes.ready)
	s.expectReport(1, "")
	return s
}

// expectClosing waits until the pod closes a connection after its answer.
func (s *stopping) expectClosing() {
	s.t.Helper()
	s.eventually("the pod closes connections", func() error {
		conn := s.dial()
		defer func() { _ = conn.Close() }()
		closes, err := ask(conn, bufio.NewReader(conn))
		if err == nil && !closes {
			err = errors.New("it does not")
		}
		return err
	})
}

// balancer is a load balancer of connections that is late to notice that the first pod is to stop.
type balancer struct {
	pods []*stopping
	late int64
	// stopping says that the first pod is to stop, and sent counts the connections that it got since.
	stopping   atomic.Bool
	next, sent atomic.Int64
}

func (b *balancer) dial() (net.Conn, error) {
	pod := b.pods[b.next.Add(1)%2]
	if b.stopping.Load() && pod == b.pods[0] {
		if b.sent.Load() >= b.late {
			pod = b.pods[1]
		} else {
			b.sent.Add(1)
		}
	}
	return net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", pod.port), timeout)
}

// keptAlive is a client that sends three requests on a connection, unless the server closes it. It sends nothing
// twice.
type keptAlive struct {
	t        *testing.T
	balancer *balancer
	conn     net.Conn
	reader   *bufio.Reader
	asked    int
	// moved counts the connections that were closed after their answer.
	moved int
}

func (k *keptAlive) ask() {
	k.t.Helper()
	if k.conn == nil {
		var err error
		if k.conn, err = k.balancer.dial(); err != nil {
			k.t.Fatalf("a connection is lost: %v", err)
		}
		k.reader, k.asked = bufio.NewReader(k.conn), 0
	}
	closes, err := ask(k.conn, k.reader)
	if err != nil {
		k.t.Fatalf("a request is lost: %v", err)
	}
	if k.asked++; closes {
		k.moved++
	}
	if closes || k.asked == 3 {
		_ = k.conn.Close()
		k.conn = nil
	}
}

// ask sends a request, and returns whether the connection is closed after the answer.
func ask(conn net.Conn, reader *bufio.Reader) (closes bool, err error) {
	if err = conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return false, err
	}
	if _, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		return false, err
	}
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		return false, err
	}
	_, err = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("the answer is %s", response.Status)
	}
	return response.Close, err
}
