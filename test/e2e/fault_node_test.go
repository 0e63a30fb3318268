package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"gateway/internal/must"
)

// clusterScript starts and stops the components of the node.
const clusterScript = "../../hack/cluster/cluster.sh"

// The programs in our pods, by what the kernel calls them.
const (
	haproxyProgram = "haproxy"
	agentProgram   = "gateway-agent"
	echoProgram    = "echo"
	operatorName   = "gateway"
)

// needNode skips a test that has to reach into the node, where that is not ours.
func needNode(t *testing.T) {
	t.Helper()
	if !onNode() || os.Geteuid() != 0 {
		t.Skip("needs the one-node cluster of hack/cluster on this machine, and root")
	}
}

// cluster runs cluster.sh.
func cluster(t *testing.T, arguments ...string) {
	t.Helper()
	begin := time.Now()
	defer func() {
		t.Logf("cluster.sh %s took %s", strings.Join(arguments, " "), time.Since(begin).Round(time.Millisecond))
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 3*soon)
	defer cancel()
	// To a file, not a pipe: a daemon that it starts must not keep us waiting for the end of its output.
	out := must.Get(os.Create(filepath.Join(t.TempDir(), "out")))(t)
	command := exec.CommandContext(ctx, clusterScript, arguments...)
	command.Stdout, command.Stderr = out, out
	if err := command.Run(); err != nil {
		text, _ := os.ReadFile(out.Name())
		t.Fatalf("failed to run cluster.sh %s: %v\n%s", strings.Join(arguments, " "), err, text)
	}
}

// program is one of a pod's, seen from the node.
type program struct {
	id, parent int
}

// programs returns the processes of a program in a pod, in the order they were started. It asks the kernel alone, so
// it works when nothing else does.
func programs(t *testing.T, pod *corev1.Pod, name string) []program {
	t.Helper()
	files := must.Get(filepath.Glob("/proc/[0-9]*/cgroup"))(t)
	var found []program
	for _, file := range files {
		// A file that cannot be read is of a process that has ended meanwhile.
		content, _ := os.ReadFile(file)
		if !strings.Contains(string(content), string(pod.UID)) {
			continue
		}
		dir := filepath.Dir(file)
		// "123 (name) S 1 ...", where the state is Z for one that has ended.
		stat, _ := os.ReadFile(filepath.Join(dir, "stat"))
		id, rest, _ := strings.Cut(string(stat), " (")
		command, rest, _ := strings.Cut(rest, ") ")
		fields := strings.Fields(rest)
		if command != name || len(fields) < 2 || fields[0] == "Z" {
			continue
		}
		var p program
		p.id, _ = strconv.Atoi(id)
		p.parent, _ = strconv.Atoi(fields[1])
		found = append(found, p)
	}
	slices.SortFunc(found, func(a, b program) int { return a.id - b.id })
	return found
}

// haproxies returns the master and the workers of a proxy pod.
func haproxies(t *testing.T, pod *corev1.Pod) (master int, workers []int) {
	t.Helper()
	all := programs(t, pod, haproxyProgram)
	for _, p := range all {
		if slices.ContainsFunc(all, func(other program) bool { return other.id == p.parent }) {
			workers = append(workers, p.id)
		} else {
			master = p.id
		}
	}
	return master, workers
}

// theProcess returns the one process of a program in a pod.
func theProcess(t *testing.T, pod *corev1.Pod, name string) int {
	t.Helper()
	found := programs(t, pod, name)
	if len(found) != 1 {
		t.Fatalf("Pod %s/%s has %d processes of %s, want 1", pod.Namespace, pod.Name, len(found), name)
	}
	return found[0].id
}

func master(t *testing.T, pod *corev1.Pod) int {
	t.Helper()
	id, _ := haproxies(t, pod)
	return id
}

func worker(t *testing.T, pod *corev1.Pod) int {
	t.Helper()
	_, workers := haproxies(t, pod)
	if len(workers) == 0 {
		t.Fatalf("Pod %s/%s has no HAProxy worker", pod.Namespace, pod.Name)
	}
	return workers[len(workers)-1]
}

// send sends a signal. A process that was stopped is woken when the test ends, if it was not before.
func send(t *testing.T, id int, signal syscall.Signal) {
	t.Helper()
	if id <= 1 {
		t.Fatalf("no process to send %s to", signal)
	}
	if signal == syscall.SIGSTOP {
		t.Cleanup(func() { _ = syscall.Kill(id, syscall.SIGCONT) })
	}
	must.Do(t, syscall.Kill(id, signal))
}

// kill ends a process of a pod's HAProxy, and so all of them; it returns when they are gone, and nothing can reach them
// any more.
func kill(t *testing.T, pod *corev1.Pod, id int) time.Time {
	t.Helper()
	all := programs(t, pod, haproxyProgram)
	send(t, id, syscall.SIGKILL)
	waitGone(t, all)
	return time.Now()
}

func waitGone(t *testing.T, all []program) {
	t.Helper()
	eventually(t, "the processes are gone", func(context.Context) error {
		for _, p := range all {
			if _, err := os.Stat(fmt.Sprintf("/proc/%d", p.id)); err == nil {
				return fmt.Errorf("process %d is still there", p.id)
			}
		}
		return nil
	})
}

// waitOther waits until a program of a pod runs as another program than before: its container was started again.
func waitOther(t *testing.T, pod *corev1.Pod, name string, before int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s of Pod %s is started again", name, pod.Name), func(context.Context) error {
		now := programs(t, pod, name)
		if len(now) == 0 || slices.ContainsFunc(now, func(p program) bool { return p.id == before }) {
			return fmt.Errorf("its processes are %v, before %d", now, before)
		}
		return nil
	})
}

// pause waits: a fault has to last.
func pause(t *testing.T, duration time.Duration) {
	t.Helper()
	select {
	case <-time.After(duration):
	case <-t.Context().Done():
	}
}

// configVolume is where the node keeps the volume with a pod's HAProxy configuration.
func configVolume(pod *corev1.Pod) string {
	state := filepath.Dir(os.Getenv("KUBECONFIG"))
	return filepath.Join(state, "kubelet/pods", string(pod.UID), "volumes/kubernetes.io~empty-dir/config")
}

// drop makes all packets that others send to a pod vanish, until the function it returns is called. The node's own
// still arrive, so kubelet finds the pod healthy: nobody says that it is gone.
func drop(t *testing.T, pod *corev1.Pod) (undo func()) {
	t.Helper()
	table := "gateway-fault-" + strings.ReplaceAll(pod.Status.PodIP, ".", "-")
	undo = func() { _ = exec.Command("nft", "delete", "table", "ip", table).Run() }
	t.Cleanup(undo)
	rules := fmt.Sprintf(`table ip %s { chain forward { type filter hook forward priority 10;
		ip daddr %s drop; ip saddr %[2]s drop; }; }`, table, pod.Status.PodIP)
	if out, err := exec.Command("nft", rules).CombinedOutput(); err != nil {
		t.Fatalf("failed to drop the packets of Pod %s/%s: %v: %s", pod.Namespace, pod.Name, err, out)
	}
	return undo
}

// waitLonger is eventually with a time limit of its own.
func waitLonger(t *testing.T, what string, limit time.Duration, check func(ctx context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), poll, limit, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("not within %s: %s: %v", limit, what, last)
	}
}
