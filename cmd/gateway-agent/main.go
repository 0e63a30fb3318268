// Command gateway-agent runs beside HAProxy in a proxy pod: it makes HAProxy run by one Gateway object, and reports
// which generation of it is live.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	clientset "gateway/generated/app/clientset/versioned"
	"gateway/internal/agent"
	"gateway/internal/endpoints"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/kubeconfig"
	"gateway/internal/memory"
	"gateway/internal/multicluster"
	"gateway/internal/program"
	"gateway/internal/proxypod"
	"gateway/internal/reconnect"
)

// garbage is the percentage for debug.SetGCPercent: most of the time, nothing changes.
const garbage = 50

// options are the command line and the environment.
type options struct {
	stop               bool
	gateway            string
	kubeconfig, master string
	configDir, runDir  string
	mounts             agent.Mounts
	haproxyCerts       string
	keysSocket         string
	loginSocket        string
	wafSocket          string
	usersSocket        string
	relaySocket        string
	healthAddress      string
	pod, namespace     string
	podUID             types.UID
	place              endpoints.Place
	addresses          []netip.Addr
	stopDelay          time.Duration
}

func main() {
	o := options{pod: os.Getenv("POD_NAME"), namespace: os.Getenv("POD_NAMESPACE"), podUID: types.UID(os.Getenv("POD_UID")),
		place:     endpoints.Place{Node: os.Getenv("NODE_NAME"), Zone: os.Getenv("ZONE")},
		addresses: reachable(os.Getenv("HOST_IPS"), os.Getenv("POD_IPS"))}
	o.stopDelay, _ = time.ParseDuration(os.Getenv("STOP_DELAY")) // 0 if unset
	os.Exit(o.program().Main())
}

func (o *options) program() program.Program {
	return program.Program{Name: "gateway-agent", Usage: usage, Flags: o.flags, Check: o.check, Run: o.run}
}

const usage = "gateway-agent makes the HAProxy beside it run by one Gateway. The operator starts it in every proxy pod.\n" +
	"$POD_NAME, $POD_NAMESPACE and $POD_UID say which pod this is, and $NODE_NAME and $ZONE where. If the node passes\n" +
	"connections on to the pod, $HOST_IPS are the addresses of the node, and $POD_IPS those of the pod. $STOP_DELAY is how\n" +
	"long HAProxy takes connections after the pod is told to stop."

func (o *options) flags(flags *flag.FlagSet) {
	flags.BoolVar(&o.stop, "stop", false, "tell the gateway-agent that this container runs that the pod is to stop, and exit")
	flags.StringVar(&o.gateway, "gateway", "", "`name` of the Gateway to run by, in $POD_NAMESPACE")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig `file`. "+
		"If empty: $KUBECONFIG, else ~/.kube/config, else, in a pod, its ServiceAccount")
	flags.StringVar(&o.master, "master", "", "`URL` of the API server; overrides the kubeconfig")
	flags.StringVar(&o.configDir, "config-dir", "/etc/haproxy", "`directory` for HAProxy's configurations: it starts on current/load.cfg and current/haproxy.cfg in it")
	flags.StringVar(&o.runDir, "run-dir", "/run/haproxy", "`directory` of HAProxy's sockets, master.sock and worker.sock")
	flags.StringVar(&o.mounts.CertificatesDir, "certificates-dir", proxypod.CertificatesDir,
		"`directory` with the inventory of gateway-keys, which has no keys and no users")
	flags.StringVar(&o.mounts.AuthoritiesDir, "authorities-dir", proxypod.AuthoritiesDir,
		"`directory` with CONFIGMAP/ca.crt, CONFIGMAP/ca.crl, CONFIGMAP/jwks or CONFIGMAP/rules.conf for each -configmap")
	flags.StringVar(&o.haproxyCerts, "haproxy-certificates-dir", proxypod.HAProxyCertificatesDir,
		"`directory` where HAProxy, not the agent, finds SECRET/tls.pem, certificate and key")
	flags.StringVar(&o.keysSocket, "keys-socket", proxypod.KeysSocket,
		"`file` of the socket where HAProxy listens to gateway-keys, if there is a -secret or -users")
	flags.StringVar(&o.usersSocket, "users-socket", proxypod.UsersSocket,
		"`file` of the socket where HAProxy, not the agent, asks gateway-keys about users, if there is a -secret or -users")
	flags.StringVar(&o.relaySocket, "relay-socket", proxypod.RelaySocket,
		"`file` of the socket where HAProxy, not the agent, has gateway-keys connect to endpoints, if it runs in this pod")
	flags.StringVar(&o.loginSocket, "login-socket", proxypod.LoginSocket,
		"`file` of the socket where HAProxy, not the agent, asks gateway-login about sessions, if there is a -users")
	flags.StringVar(&o.wafSocket, "waf-socket", proxypod.WAFSocket,
		"`file` of the socket where HAProxy, not the agent, asks gateway-waf about requests, if it runs in this pod")
	flags.BoolVar(&o.mounts.Keys, "keys", false, "gateway-keys runs in this pod, even without -secret and -users")
	flags.BoolVar(&o.mounts.KeyServer, "key-server", false, "gateway-keys has Secrets and ConfigMaps from a key server: it knows which there are, in place of -secret, -users and -configmap")
	flags.Func("secret", "`name` of a Secret that this pod mounts, whether it exists or not; one for each", appendTo(&o.mounts.Secrets))
	flags.Func("users", "`name` of a Secret with users, API keys or keys of sessions that this pod mounts, whether it exists or not; one for each", appendTo(&o.mounts.Users))
	flags.Func("configmap", "`name` of a ConfigMap that this pod mounts, whether it exists or not; one for each", appendTo(&o.mounts.ConfigMaps))
	flags.StringVar(&o.healthAddress, "health-address", ":8405", "`address` for /startupz, /healthz, /servingz, /readyz and /metrics")
}

func appendTo(names *[]string) func(string) error {
	return func(name string) error {
		*names = append(*names, name)
		return nil
	}
}

// reachable returns the addresses of a node by which its ports reach a pod: only address families that the pod has.
func reachable(node, pod string) []netip.Addr {
	var reachable []netip.Addr
	pods := addresses(pod)
	for _, address := range addresses(node) {
		if slices.ContainsFunc(pods, func(pod netip.Addr) bool { return pod.Is4() == address.Is4() }) {
			reachable = append(reachable, address)
		}
	}
	return reachable
}

// addresses reads a list of addresses as kubelet writes it.
func addresses(list string) []netip.Addr {
	var read []netip.Addr
	for field := range strings.SplitSeq(list, ",") {
		if address, err := netip.ParseAddr(field); err == nil && address.Zone() == "" {
			read = append(read, address.Unmap())
		}
	}
	return read
}

// hapathPattern is what HAProxy's expressions can name a file by.
var hapathPattern = regexp.MustCompile(`^/[A-Za-z0-9/._-]*$`)

func (o *options) check() error {
	switch {
	case o.stop:
		return nil
	case o.gateway == "":
		return errors.New("-gateway is missing: the name of the Gateway to run by")
	case o.pod == "":
		return errors.New("$POD_NAME is not set: the name of the pod this runs in")
	case o.namespace == "":
		return errors.New("$POD_NAMESPACE is not set: the namespace of the pod this runs in")
	case o.podUID == "":
		return errors.New("$POD_UID is not set: the UID of the pod this runs in")
	}
	for _, path := range []struct{ flag, value string }{
		{"config-dir", o.configDir}, {"run-dir", o.runDir}, {"haproxy-certificates-dir", o.haproxyCerts},
		{"keys-socket", o.keysSocket}, {"users-socket", o.usersSocket}, {"waf-socket", o.wafSocket}, {"login-socket", o.loginSocket},
	} {
		if !hapathPattern.MatchString(path.value) {
			return fmt.Errorf("-%s=%s is not an absolute path of letters, digits, and /._-", path.flag, path.value)
		}
	}
	return nil
}

// run works until ctx ends. It returns an error if the agent cannot work.
func (o *options) run(ctx context.Context) error {
	if o.stop {
		return syscall.Kill(1, syscall.SIGUSR1)
	}
	stopping := make(chan os.Signal, 1)
	signal.Notify(stopping, syscall.SIGUSR1)
	debug.SetGCPercent(garbage)
	memory.LeaveRoom()
	go memory.GiveBack(ctx)
	restConfig, err := kubeconfig.Load(o.master, o.kubeconfig)
	if err != nil {
		return err
	}
	reached, err := clients(restConfig)
	if err != nil {
		return err
	}
	paths := ir.Paths{
		ConfigDir: filepath.Join(o.configDir, "current"), RunDir: filepath.Clean(o.runDir), CertificateDir: filepath.Clean(o.haproxyCerts),
		WAFSocket: o.wafSocket,
	}
	if o.mounts.HasKeys() {
		paths.KeysSocket, paths.UsersSocket, paths.RelaySocket, paths.LoginSocket = o.keysSocket, o.usersSocket, o.relaySocket, o.loginSocket
	}
	a, err := agent.New(agent.Options{
		Namespace: o.namespace, Gateway: o.gateway, Pod: o.pod, PodUID: o.podUID, Place: o.place, Addresses: o.addresses,
		Gateways: reached.Gateways, Core: reached.Core, Routes: reached.Routes, Imports: reached.Imports,
		Paths:         paths,
		Bind:          bind(),
		Mounts:        o.mounts,
		HealthAddress: o.healthAddress,
		Stopping:      stopping, StopDelay: o.stopDelay,
	})
	if err != nil {
		return err
	}
	return a.Run(ctx)
}

// clients returns the clients for the one Gateway, for what is behind it, and for the Gateway API.
func clients(restConfig *rest.Config) (reached agent.Options, err error) {
	restConfig = rest.CopyConfig(restConfig)
	restConfig.UserAgent = "gateway-agent"
	restConfig.QPS = -1 // watches take turns by themselves
	reconnect.Configure(restConfig)
	// One connection for all.
	transport, err := rest.HTTPClientFor(restConfig)
	if err != nil {
		return reached, fmt.Errorf("failed to make a client: %w", err)
	}
	reached.Gateways, err = clientset.NewForConfigAndClient(restConfig, transport)
	if err != nil {
		return reached, fmt.Errorf("failed to make a client for Gateways: %w", err)
	}
	reached.Routes, err = routesclient.NewForConfigAndClient(restConfig, transport)
	if err != nil {
		return reached, fmt.Errorf("failed to make a client for the Gateway API: %w", err)
	}
	if reached.Imports, err = multicluster.NewForConfigAndClient(restConfig, transport); err != nil {
		return reached, err
	}
	// Custom resources are JSON; for everything else protobuf is smaller and faster.
	restConfig.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	restConfig.ContentType = "application/vnd.kubernetes.protobuf"
	reached.Core, err = kubernetes.NewForConfigAndClient(restConfig, transport)
	if err != nil {
		return reached, fmt.Errorf("failed to make a client for Kubernetes: %w", err)
	}
	return reached, nil
}

// bind is IPv4 alone where the kernel has no IPv6: HAProxy does not start if it cannot bind an address. The container
// runtime allows HAProxy's container as many files as this one.
func bind() render.Bind {
	var bind render.Bind
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err == nil {
		bind.Files = int(min(files.Max, math.MaxInt32)) //nolint:gosec // it is not greater
	}
	listener, err := net.Listen("tcp6", "[::]:0")
	if err != nil {
		bind.Addresses = []string{"0.0.0.0"}
		return bind
	}
	_ = listener.Close() // nothing connected
	return bind
}
