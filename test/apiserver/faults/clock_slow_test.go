//go:build slow

package faults

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gateway/internal/must"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

// clockOffset is a file for package time: the wall clock, not the monotonic one, is off by so many seconds as are in a
// file that is mapped into memory.
const clockOffset = `package time

import (
	"syscall"
	"unsafe"
)

var clockOffset = mapClockOffset()

func mapClockOffset() *int64 {
	path, ok := syscall.Getenv("CLOCK_OFFSET")
	if !ok {
		panic("CLOCK_OFFSET is not set")
	}
	file, err := syscall.Open(path, syscall.O_RDONLY, 0)
	if err != nil {
		panic(err)
	}
	memory, err := syscall.Mmap(file, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	return (*int64)(unsafe.Pointer(&memory[0]))
}
`

// offClock returns the flag of "go build" for programs whose clock can be changed, what they need in their environment,
// and what changes it.
func offClock(t *testing.T) (flag, env string, jump func(by time.Duration)) {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(strings.TrimSpace(testenv.Run(t, dir, nil, "go", "env", "GOROOT")), "src", "time")
	content := must.Get(os.ReadFile(filepath.Join(source, "time.go")))(t)
	const begin = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if strings.Count(string(content), begin) != 1 {
		t.Fatalf("time.Now in %s is not what it was: this test has to follow", source)
	}
	patched := strings.Replace(string(content), begin, begin+"\tsec += *clockOffset\n", 1)
	overlay := map[string]string{}
	for name, content := range map[string]string{"time.go": patched, "clock_offset.go": clockOffset} {
		overlay[filepath.Join(source, name)] = filepath.Join(dir, name)
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	encoded := must.Get(json.Marshal(map[string]any{"Replace": overlay}))(t)
	must.Do(t, os.WriteFile(filepath.Join(dir, "overlay.json"), encoded, 0o600))

	offset := must.Get(os.Create(filepath.Join(dir, "offset")))(t)
	t.Cleanup(func() { _ = offset.Close() })
	jump = func(by time.Duration) {
		t.Helper()
		must.Get(offset.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(int64(by/time.Second))), 0))(t)
	}
	jump(0)
	return "-overlay=" + filepath.Join(dir, "overlay.json"), "CLOCK_OFFSET=" + offset.Name(), jump
}

// TestClockJump: the clock of the machine with the operator and the agent is set back and forth by an hour.
func TestClockJump(t *testing.T) {
	t.Parallel()
	flag, env, jump := offClock(t)
	begun := time.Now()
	dir := t.TempDir()
	testenv.Run(t, testbuild.MustRoot(t), nil, "go", "build", "-o", dir, flag, ".", "./cmd/gateway-agent")
	operatorProgram, agentProgram := filepath.Join(dir, "gateway"), filepath.Join(dir, "gateway-agent")
	t.Logf("built in %v", time.Since(begun).Round(time.Second))
	s := setUp(t, "clock")
	s.operator = startOperatorAs(t, operatorProgram, []string{env}, s.proxy, s.namespace)
	s.pod = startPod(t, s, agentProgram, env)
	s.expectProgrammed(t, soon, 1)
	standby := startOperator(t, nil, s.namespace)
	operatorLeaks, agentLeaks := watchLeaks(t, s.operator.address), watchLeaks(t, s.pod.health)
	stopTraffic := s.pod.traffic(t)
	for i, by := range []time.Duration{time.Hour, -time.Hour, 0} {
		jumped := time.Now()
		jump(by)
		// Once with connections that are there, once with new ones.
		for j, prepare := range []func(){func() {}, s.proxy.Drop} {
			prepare()
			path := fmt.Sprintf("/edit-%d-%d", i, j)
			generation := s.edit(t, path)
			s.pod.expectAnswer(t, promised, path, "next")
			s.expectProgrammed(t, promised, generation)
		}
		t.Logf("%v: in force %v after the jump", by, time.Since(jumped).Round(time.Millisecond))
		s.expectClock(t, by)
	}
	if err := s.operator.leads(t.Context()); err != nil {
		t.Error(err)
	}
	if standby.leads(t.Context()) == nil {
		t.Error("another operator took over, though the leader was there all the time")
	}
	stopTraffic()
	operatorLeaks()
	agentLeaks()
}

// expectClock waits until the operator renews its lease by the changed clock: else the test would prove nothing.
func (s *stack) expectClock(t *testing.T, by time.Duration) {
	t.Helper()
	testenv.Eventually(t, soon, "the operator's clock is off", func(ctx context.Context) error {
		lease, err := server.Kube.CoordinationV1().Leases(operatorNamespace).Get(ctx, s.namespace, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if off := time.Since(lease.Spec.RenewTime.Time) + by; off.Abs() > time.Minute {
			return fmt.Errorf("the lease was renewed at %v, want about %v", lease.Spec.RenewTime, time.Now().Add(by))
		}
		return nil
	})
}
