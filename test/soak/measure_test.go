//go:build slow

package soak

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// addMetrics adds what a program tells of itself on a port of its pod.
func addMetrics(ctx context.Context, counts map[string]float64, pod *corev1.Pod, program, port string) error {
	raw, err := kube.CoreV1().Pods(pod.Namespace).ProxyGet("http", pod.Name, port, "/metrics", nil).DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("failed to get the metrics of Pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	lines := bufio.NewScanner(bytes.NewReader(raw))
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), " ")
		value, _ := strconv.ParseFloat(text, 64)
		switch name {
		case "go_goroutines":
			counts[program+" goroutines"] += value
		case "process_open_fds":
			counts[program+" descriptors"] += value
		case "process_resident_memory_bytes":
			counts[program+" MiB"] += value / (1 << 20)
		}
	}
	return lines.Err()
}

// addProcesses adds what the kernel reports of a pod's HAProxy processes, old workers included, and what HAProxy has.
func addProcesses(counts map[string]float64, pod *corev1.Pod) error {
	var socket string
	files, _ := filepath.Glob("/proc/[0-9]*/cgroup")
	for _, file := range files {
		dir := filepath.Dir(file)
		// A file that cannot be read is of a process that has ended meanwhile.
		group, _ := os.ReadFile(file)
		name, _ := os.ReadFile(filepath.Join(dir, "comm"))
		if !strings.Contains(string(group), string(pod.UID)) || strings.TrimSpace(string(name)) != "haproxy" {
			continue
		}
		open, _ := os.ReadDir(filepath.Join(dir, "fd"))
		counts["haproxy processes"]++
		counts["haproxy descriptors"] += float64(len(open))
		counts["haproxy MiB"] += proportionalMemory(dir)
		socket = filepath.Join(dir, "root/run/haproxy/worker.sock")
	}
	for what, command := range map[string]string{"haproxy backends": "show backend", "haproxy certificates": "show ssl cert"} {
		lines, err := ask(socket, command)
		if err != nil {
			return fmt.Errorf("failed to ask HAProxy of Pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		counts[what] += float64(lines)
	}
	return nil
}

// ask returns how many lines HAProxy answers, without what is no data.
func ask(socket, command string) (lines int, err error) {
	connection, err := net.DialTimeout("unix", socket, 10*time.Second)
	if err != nil {
		return 0, err
	}
	defer connection.Close() //nolint:errcheck // it was read
	if _, err := fmt.Fprintln(connection, command); err != nil {
		return 0, err
	}
	answer, err := io.ReadAll(connection)
	for line := range strings.Lines(string(answer)) {
		if text := strings.TrimSpace(line); text != "" && text[0] != '#' {
			lines++
		}
	}
	return lines, err
}

// addStore adds the size of etcd's file, if the cluster is this machine's.
func addStore(counts map[string]float64) {
	if file, err := os.Stat("/var/lib/gateway-cluster/etcd/member/snap/db"); err == nil {
		counts["etcd MiB on disk"] = float64(file.Size()) / (1 << 20)
	}
}

// proportionalMemory is a process's share of the memory it is in, in MiB: what workers have in common with the master
// counts once.
func proportionalMemory(dir string) float64 {
	raw, _ := os.ReadFile(filepath.Join(dir, "smaps_rollup"))
	for line := range strings.Lines(string(raw)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "Pss:" {
			kib, _ := strconv.ParseFloat(fields[1], 64)
			return kib / 1024
		}
	}
	return 0
}
