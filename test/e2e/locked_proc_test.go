package e2e

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"gateway/internal/must"
)

// task is a process of a container, as this machine, which is the node, sees it.
type task string

// file returns the path by which a file of /proc about the process is reached from outside.
func (p task) file(name string) string { return filepath.Join("/proc", string(p), name) }

// inside returns the path by which a file of the process's own root is reached from outside.
func (p task) inside(path string) string { return filepath.Join(p.file("root"), path) }

// tasks returns the tasks of a running container, at least one.
func tasks(t *testing.T, pod *corev1.Pod, container string) []task {
	t.Helper()
	_, id, _ := strings.Cut(containerStatus(t, pod, container).ContainerID, "://")
	if id == "" {
		t.Fatalf("container %s of Pod %s does not run", container, pod.Name)
	}
	groups := must.Get(filepath.Glob("/proc/[0-9]*/cgroup"))(t)
	var found []task
	for _, group := range groups {
		// A process may have ended since.
		if content, err := os.ReadFile(group); err == nil && bytes.Contains(content, []byte(id)) {
			found = append(found, task(filepath.Base(filepath.Dir(group))))
		}
	}
	if len(found) == 0 {
		t.Fatalf("container %s of Pod %s has no process on this machine", container, pod.Name)
	}
	return found
}

func containerStatus(t *testing.T, pod *corev1.Pod, container string) corev1.ContainerStatus {
	t.Helper()
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if status.Name == container {
			return status
		}
	}
	t.Fatalf("Pod %s has no container %s", pod.Name, container)
	return corev1.ContainerStatus{}
}

// expectConfined checks what the kernel lets a process do: it is the user, has no capability and can get none, and its
// system calls are filtered.
func expectConfined(t *testing.T, p task, user string) {
	t.Helper()
	content := must.Get(os.ReadFile(p.file("status")))(t)
	got := map[string]string{}
	for line := range strings.Lines(string(content)) {
		name, value, _ := strings.Cut(line, ":")
		got[name] = strings.Join(strings.Fields(value), " ")
	}
	none := strings.Repeat("0", 16)
	want := map[string]string{
		"Uid": strings.Join([]string{user, user, user, user}, " "), "Gid": strings.Join([]string{user, user, user, user}, " "),
		"CapInh": none, "CapPrm": none, "CapEff": none, "CapBnd": none, "CapAmb": none, "NoNewPrivs": "1", "Seccomp": "2",
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s of %s is %q, want %q", name, got["Name"], got[name], value)
		}
	}
}

// kernelFileSystems are no places to leave anything in.
var kernelFileSystems = []string{"proc", "sysfs", "devpts", "mqueue", "cgroup", "cgroup2"}

// runtimeMounts are the container runtime's own: devices, and files that belong to root.
var runtimeMounts = []string{"/dev", "/dev/shm", "/dev/termination-log", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/sys/fs/cgroup"}

// expectReadOnly checks that a process can write to these volumes and nowhere else, its root least of all.
func expectReadOnly(t *testing.T, p task, volumes ...string) {
	t.Helper()
	content := must.Get(os.ReadFile(p.file("mountinfo")))(t)
	var writable []string
	for line := range strings.Lines(string(content)) {
		mount, source, _ := strings.Cut(line, " - ")
		fields := strings.Fields(mount)
		target, options, kind := fields[4], strings.Split(fields[5], ","), strings.Fields(source)[0]
		if slices.Contains(options, "rw") && !slices.Contains(kernelFileSystems, kind) && !slices.Contains(runtimeMounts, target) &&
			!strings.HasPrefix(target, "/proc/") {
			writable = append(writable, target)
		}
	}
	slices.Sort(writable)
	if !slices.Equal(writable, volumes) {
		t.Errorf("these are mounted writable: %q, want %q", writable, volumes)
	}
	for _, dir := range []string{"/", "/etc", "/usr", "/tmp"} {
		file, err := os.Create(p.inside(filepath.Join(dir, "written")))
		if err == nil {
			_ = file.Close()
			_ = os.Remove(file.Name())
			t.Errorf("root can write to %s of the container", dir)
		}
	}
}

// expectHolds walks through all that a process can see of files, and checks which of them are tokens and keys.
func expectHolds(t *testing.T, p task, want ...string) {
	t.Helper()
	root, got := p.inside("/"), []string{}
	must.Do(t, filepath.WalkDir(root+"/.", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil // a file that was replaced meanwhile
		}
		name := strings.TrimPrefix(path, root+"/")
		if entry.IsDir() && slices.Contains([]string{"proc", "sys", "dev"}, name) {
			return fs.SkipDir
		}
		if entry.Type().IsRegular() {
			if content, err := os.ReadFile(path); err == nil {
				got = append(got, credential(name, content)...)
			}
		}
		return nil
	}))
	slices.Sort(got)
	if got = slices.Compact(got); !slices.Equal(got, want) {
		t.Errorf("the container holds %q, want %q", got, want)
	}
	environment := must.Get(os.ReadFile(p.file("environ")))(t)
	if len(credential("environment", environment)) > 0 {
		t.Error("its environment holds a credential")
	}
}

// credential returns which kind of secret some content is, if it is one. Programs have the words in their code, without
// what follows them in a file.
func credential(name string, content []byte) []string {
	switch {
	case bytes.Contains(content, []byte("PRIVATE KEY-----\nMI")):
		return []string{"key"}
	case bytes.Contains(content, []byte("eyJhbGciOi")) && bytes.Count(content, []byte(".")) >= 2:
		return []string{"token"}
	case filepath.Base(name) == "token":
		return []string{"token"}
	}
	return nil
}

// expectNoShell checks that there is nothing to type into.
func expectNoShell(t *testing.T, p task) {
	t.Helper()
	for _, dir := range []string{"/bin", "/usr/bin", "/sbin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/"} {
		for _, name := range []string{"sh", "bash", "dash", "busybox", "perl", "python3", "apt", "apk"} {
			if _, err := os.Lstat(p.inside(filepath.Join(dir, name))); err == nil {
				t.Errorf("the container has %s", filepath.Join(dir, name))
			}
		}
	}
}

// expectListening checks on which TCP and UDP ports, of any address, the process's pod takes traffic.
func expectListening(t *testing.T, p task, want ...int) {
	t.Helper()
	var got []int
	for file, state := range map[string]string{"tcp": "0A", "tcp6": "0A", "udp": "07", "udp6": "07"} {
		content := must.Get(os.ReadFile(p.file("net/" + file)))(t)
		for line := range strings.Lines(string(content)) {
			fields := strings.Fields(line)
			if fields[3] != state {
				continue
			}
			_, hexadecimal, _ := strings.Cut(fields[1], ":")
			port := must.Get(strconv.ParseInt(hexadecimal, 16, 32))(t)
			got = append(got, int(port))
		}
	}
	slices.Sort(got)
	if got = slices.Compact(got); !slices.Equal(got, want) {
		t.Errorf("the pod listens on %v, want %v", got, want)
	}
	content := must.Get(os.ReadFile(p.file("net/unix")))(t)
	for line := range strings.Lines(string(content)) {
		if fields := strings.Fields(line); strings.HasPrefix(fields[len(fields)-1], "@") {
			t.Errorf("the pod has a socket outside of any directory: %s", line)
		}
	}
}

// expectPrivateSockets checks that HAProxy's command lines are there, in a directory that the process mounts, and are
// the user's alone.
func expectPrivateSockets(t *testing.T, p task) {
	t.Helper()
	for _, name := range []string{"haproxy/master.sock", "haproxy/worker.sock", "haproxy-keys/keys.sock"} {
		info := must.Get(os.Lstat(p.inside("/run/" + name)))(t)
		if info.Mode().Type() != fs.ModeSocket || info.Mode().Perm()&0o077 != 0 {
			t.Error(fmt.Sprintf("%s is %s, want a socket without permissions", name, info.Mode()), "for the group and others")
		}
	}
}
