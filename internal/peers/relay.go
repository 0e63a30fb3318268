package peers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"gateway/internal/haproxy/ir"
	"gateway/internal/logging"
)

const (
	// Path is where a Relay takes connections of others.
	Path = "/peers"

	// podHeader has the name of the pod that a connection is from.
	podHeader = "Pod"
	// goneHeader names a pod that is gone and still counts, for those that came later.
	goneHeader = "Gone-Pod"
	protocol   = "haproxy-peers"
	// helloTimeout bounds everything before the connection is passed on.
	helloTimeout = 5 * time.Second
	// retryInterval is how long a connection waits for the next attempt to reach its pod.
	retryInterval = 100 * time.Millisecond
)

// Pod is another proxy pod of the Gateway.
type Pod struct {
	Name    string
	Address netip.Addr
}

// Relay connects one HAProxy with the HAProxies of other pods. Its methods may be called from several goroutines.
type Relay struct {
	own     string
	haproxy string
	port    int
	dialer  net.Dialer

	mu sync.Mutex
	// given are the pods of the last Update.
	given []Pod
	// pods are the others by their numbers, from 1; one that has no name is free. gone are those that do not exist any
	// more.
	pods [ir.MaxPods]Pod
	gone [ir.MaxPods]bool
	// updated is closed with the next Update.
	updated chan struct{}
	// outgoing and incoming count the connections to and from each other pod.
	outgoing, incoming map[string]int
}

// New returns the relay of the pod called own, whose HAProxy listens for its peers on a Unix socket. Other pods listen
// on a port.
func New(own, haproxy string, port int) *Relay {
	return &Relay{
		own: own, haproxy: haproxy, port: port, dialer: net.Dialer{Timeout: helloTimeout},
		updated: make(chan struct{}), outgoing: map[string]int{}, incoming: map[string]int{},
	}
}

// Update sets the other pods. The counts of a pod outlive it, so it keeps its number until another pod needs it. Beyond
// MaxPods, pods are left out.
func (r *Relay) Update(pods []Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Equal(pods, r.given) {
		return
	}
	r.given = pods
	close(r.updated)
	r.updated = make(chan struct{})
	byName := map[string]Pod{}
	for _, pod := range pods {
		if pod.Name != r.own {
			byName[pod.Name] = pod
		}
	}
	for number := 1; number < ir.MaxPods; number++ {
		pod, ok := byName[r.pods[number].Name]
		if r.gone[number] = !ok; ok {
			r.pods[number] = pod
			delete(byName, pod.Name)
		}
	}
	for _, pod := range pods {
		if _, isNew := byName[pod.Name]; !isNew {
			continue
		}
		if number := r.free(); number > 0 {
			r.pods[number], r.gone[number] = pod, false
		}
	}
}

// free returns a number that no pod has or, if there is none, one of a pod that has gone; 0: there is none either.
func (r *Relay) free() (number int) {
	for i := 1; i < ir.MaxPods; i++ {
		if r.pods[i].Name == "" {
			return i
		}
		if r.gone[i] {
			number = i
		}
	}
	return number
}

// gonePods returns the names of pods that are gone and still count.
func (r *Relay) gonePods() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for number, pod := range r.pods {
		if r.gone[number] && pod.Name != "" {
			names = append(names, pod.Name)
		}
	}
	return names
}

// learn takes in names of pods that are gone, which another pod knows.
func (r *Relay) learn(names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		isKnown := name == r.own || slices.ContainsFunc(r.pods[:], func(pod Pod) bool { return pod.Name == name })
		if number := r.free(); !isKnown && number > 0 && r.pods[number].Name == "" {
			r.pods[number], r.gone[number] = Pod{Name: name}, true
		}
	}
}

// IDs returns the value of pods.map.
func (r *Relay) IDs() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids := ir.PodID(r.own)
	for _, pod := range r.pods[1:] {
		if pod.Name != "" {
			ids += ir.PodID(pod.Name)
		}
	}
	return ids
}

// awaitPod returns the pod with a number once there is one. It waits as long as HAProxy waits before it retries, so
// that HAProxy is connected with a new pod at once.
func (r *Relay) awaitPod(ctx context.Context, number int) (Pod, bool) {
	timer := time.NewTimer(helloTimeout)
	defer timer.Stop()
	for number > 0 {
		r.mu.Lock()
		pod, updated, ok := r.pods[number], r.updated, r.pods[number].Name != "" && !r.gone[number]
		r.mu.Unlock()
		if ok {
			return pod, true
		}
		select {
		case <-updated:
		case <-timer.C:
			return Pod{}, false
		case <-ctx.Done():
			return Pod{}, false
		}
	}
	return Pod{}, false
}

// number returns the number of the pod called name, if it has the address; 0: there is none.
func (r *Relay) number(name string, address netip.Addr) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for number, pod := range r.pods {
		if name != "" && pod.Name == name && pod.Address.Unmap() == address.Unmap() && !r.gone[number] {
			return number
		}
	}
	return 0
}

// connect notes a connection to or from a pod, until it ends. It returns nil if there is one already. If two pods
// connect with each other at once, HAProxy may end both connections, and waits before it retries. So only the first pod
// by name connects.
func (r *Relay) connect(pod string, outgoing bool) (end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	connections := r.incoming
	if outgoing {
		connections = r.outgoing
	}
	if outgoing && r.incoming[pod] > 0 || !outgoing && r.own < pod && r.outgoing[pod] > 0 {
		return nil
	}
	connections[pod]++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if connections[pod]--; connections[pod] == 0 {
			delete(connections, pod)
		}
	}
}

// Serve forwards what HAProxy sends to its peers, until ctx ends. It closes the listener.
func (r *Relay) Serve(ctx context.Context, listener net.Listener) {
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	for {
		conn, err := listener.Accept()
		if err != nil {
			if ctx.Err() == nil {
				logging.Errorf("Rate limits do not count for all pods any more: %v", err)
			}
			return
		}
		go func() {
			if err := r.send(ctx, conn); err != nil {
				logging.V(2).Infof("Not connected with another pod: %v", err)
			}
		}()
	}
}

// send forwards a connection of the own HAProxy.
func (r *Relay) send(ctx context.Context, conn net.Conn) error {
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(helloTimeout))
	from := bufio.NewReader(conn)
	hello, err := readHello(from)
	if err != nil {
		return err
	}
	pod, ok := r.awaitPod(ctx, ir.PeerNumber(hello.to))
	if !ok {
		return nil
	}
	// HAProxy would connect again after 5 s only, and a pod that starts is not there yet, or does not know this one.
	deadline := time.Now().Add(helloTimeout)
	for {
		err := r.sendTo(ctx, pod, hello, stream{conn, from})
		if err == nil || ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
		_ = conn.SetReadDeadline(time.Now().Add(retryInterval))
		if _, closed := from.Peek(1); !errors.Is(closed, os.ErrDeadlineExceeded) {
			return err
		}
	}
}

// sendTo forwards a connection of the own HAProxy to a pod. It returns an error if the pod refuses it.
func (r *Relay) sendTo(ctx context.Context, pod Pod, hello hello, own stream) error {
	other, err := r.dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(pod.Address, uint16(r.port)).String())
	if err != nil {
		return fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	defer func() { _ = other.Close() }()
	end := r.connect(pod.Name, true)
	if end == nil {
		return fmt.Errorf("pod %s: connected already", pod.Name)
	}
	defer end()
	_ = other.SetDeadline(time.Now().Add(helloTimeout))
	request := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: Path}, Host: pod.Name, Header: http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {protocol}, podHeader: {r.own}, goneHeader: r.gonePods(),
	}}
	if err := request.Write(other); err != nil {
		return fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	to := bufio.NewReader(other)
	response, err := http.ReadResponse(to, request)
	if err != nil {
		return fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Errorf("pod %s answers %s", pod.Name, response.Status)
	}
	r.learn(response.Header.Values(goneHeader))
	if err := hello.write(other); err != nil {
		return fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	join(ctx, own, stream{other, to})
	return nil
}

// ServeHTTP forwards a connection of another pod to the own HAProxy.
func (r *Relay) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	address, _ := netip.ParseAddrPort(request.RemoteAddr)
	number := r.number(request.Header.Get(podHeader), address.Addr())
	if number == 0 || request.Header.Get("Upgrade") != protocol {
		http.Error(w, "only for the other proxy pods of the Gateway", http.StatusForbidden)
		return
	}
	end := r.connect(request.Header.Get(podHeader), false)
	if end == nil {
		http.Error(w, "connected already", http.StatusConflict)
		return
	}
	defer end()
	r.learn(request.Header.Values(goneHeader))
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		logging.Errorf("Failed to take a connection of pod %s: %v", request.Header.Get(podHeader), err)
		return
	}
	if err := r.receive(request.Context(), stream{conn, buffered.Reader}, number); err != nil {
		logging.V(2).Infof("Not connected with pod %s: %v", request.Header.Get(podHeader), err)
	}
}

func (r *Relay) receive(ctx context.Context, other stream, number int) error {
	defer func() { _ = other.conn.Close() }()
	_ = other.conn.SetDeadline(time.Now().Add(helloTimeout))
	answer := &http.Response{StatusCode: http.StatusSwitchingProtocols, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {protocol}, goneHeader: r.gonePods(),
	}}
	if err := answer.Write(other.conn); err != nil {
		return err
	}
	hello, err := readHello(other.reader)
	if err != nil {
		return err
	}
	conn, err := (&net.Dialer{Timeout: helloTimeout}).DialContext(ctx, "unix", r.haproxy)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	hello.to, hello.from = ir.OwnPeer, ir.PeerName(number)
	if err := hello.write(conn); err != nil {
		return err
	}
	join(ctx, other, stream{conn, bufio.NewReader(conn)})
	return nil
}

// hello is the start of a connection in HAProxy's peers protocol: the version, the receiver, and the sender with the
// numbers of its process. See doc/peers-v2.0.txt of HAProxy.
type hello struct {
	version, to, from, process string
}

// maxHello is how long a line may be.
const maxHello = 256

func readHello(r *bufio.Reader) (hello, error) {
	var lines [3]string
	for i := range lines {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return hello{}, fmt.Errorf("failed to read the names of peers: %w", err)
		}
		if len(line) > maxHello {
			return hello{}, errors.New("the names of peers are too long")
		}
		lines[i] = strings.TrimSuffix(string(line), "\n")
	}
	from, process, _ := strings.Cut(lines[2], " ")
	return hello{version: lines[0], to: lines[1], from: from, process: process}, nil
}

func (h hello) write(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s\n%s\n%s %s\n", h.version, h.to, h.from, h.process)
	return err
}

// stream is a connection with bytes that may have been read ahead.
type stream struct {
	conn   net.Conn
	reader *bufio.Reader
}

// join copies both ways, until one side or ctx ends.
func join(ctx context.Context, a, b stream) {
	_, _ = a.conn.SetDeadline(time.Time{}), b.conn.SetDeadline(time.Time{})
	closeBoth := func() { _, _ = a.conn.Close(), b.conn.Close() }
	defer context.AfterFunc(ctx, closeBoth)()
	var done sync.WaitGroup
	for _, way := range [][2]stream{{a, b}, {b, a}} {
		done.Go(func() {
			_, _ = io.Copy(way[0].conn, way[1].reader)
			closeBoth()
		})
	}
	done.Wait()
}
