package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gateway/internal/haproxy/config"
)

// measureMemory prints a table of what HAProxy keeps in memory for Gateways of several sizes, with five endpoints for each backend.
func measureMemory(site *site) error {
	fmt.Println("\n| routes | backends | HAProxy's memory, idle |")
	fmt.Println("|---|---|---|")
	for _, size := range []struct{ hosts, rules, backends int }{{10, 1, 10}, {1000, 1, 1000}, {2000, 5, 5000}} {
		ports, err := site.twoPorts()
		if err != nil {
			return err
		}
		in := gatewayInput(plainRoutes(size.hosts, size.rules, size.backends), ports, distantServers(size.backends, 5))
		dir := filepath.Join(site.dir, fmt.Sprint("memory-", size.backends))
		process, err := runGateway(site, dir, in, "")
		if err != nil {
			return fmt.Errorf("failed to start HAProxy with %d backends: %w", size.backends, err)
		}
		resident, err := process.memory()
		process.stop()
		if err != nil {
			return err
		}
		fmt.Printf("| %d | %d | %d MiB |\n", size.hosts*size.rules, size.backends, resident>>20)
	}
	return nil
}

// distantServers returns servers that get no requests.
func distantServers(backends, endpoints int) [][]config.Server {
	all := make([][]config.Server, backends)
	for i := range all {
		for j := range endpoints {
			all[i] = append(all[i], config.Server{Address: fmt.Sprintf("10.%d.%d.%d", j, i/256, i%256), Port: 8080})
		}
	}
	return all
}

// memory returns the bytes that are resident.
func (p *process) memory() (int64, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("failed to read the memory: %w", err)
	}
	for line := range strings.Lines(string(content)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kilobytes, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kilobytes << 10, err
		}
	}
	return 0, fmt.Errorf("the status of process %d has no VmRSS", p.cmd.Process.Pid)
}
