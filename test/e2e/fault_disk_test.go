//go:build slow

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
)

// The volume with the configuration is full, or what is in it is of no use when both containers start.
func TestFaultsOfTheDisk(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var killed time.Time
	s.run(t, "configuration on disk is garbage", onlyInFlight(&killed), func(t *testing.T) {
		t.Helper()
		pod := s.proxies(t)[0]
		file := filepath.Join(configVolume(&pod), "current/haproxy.cfg")
		must.Do(t, os.WriteFile(file, []byte("\x00 no configuration\n"), 0o640)) //nolint:gosec // the group reads it, as before
		killed = s.restartPod(t, &pod)
	})
	s.run(t, "configuration symlink leads nowhere", onlyInFlight(&killed), func(t *testing.T) {
		t.Helper()
		pod := s.proxies(t)[1]
		target := must.Get(os.Readlink(filepath.Join(configVolume(&pod), "current")))(t)
		must.Do(t, os.RemoveAll(filepath.Join(configVolume(&pod), target)))
		killed = s.restartPod(t, &pod)
	})
}

// With a full volume, an edit is live but not on the disk, and the status says so; nobody loses a request.
func TestFaultOfAFullDisk(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	pod := s.proxies(t)[0]
	volume := s.mountSmallVolume(t, &pod)
	s.waitEdit(t)
	s.run(t, "full disk", nil, func(t *testing.T) {
		t.Helper()
		filler := filepath.Join(volume, "filler")
		fill(t, filler)
		s.edit(t)
		eventually(t, "the status says why the edit is not Programmed", func(ctx context.Context) error {
			gateway, err := gateways.AppV1().Gateways(s.namespace).Get(ctx, gatewayName, metav1.GetOptions{})
			if err != nil {
				return err
			}
			condition := meta.FindStatusCondition(gateway.Status.Conditions, appv1.ConditionProgrammed)
			if condition.Status == metav1.ConditionTrue || !strings.Contains(condition.Message, "no space left on device") {
				return fmt.Errorf("condition %+v", condition)
			}
			for _, other := range []string{appv1.ConditionAccepted, appv1.ConditionResolvedRefs} {
				if c := meta.FindStatusCondition(gateway.Status.Conditions, other); c.Status != metav1.ConditionTrue {
					t.Errorf("a full disk made %s %s: %s", other, c.Status, c.Message)
				}
			}
			return nil
		})
		must.Do(t, os.Remove(filler))
	})
}

// restartPod ends both containers of a pod at the same moment, and waits until it is ready again.
func (s *site) restartPod(t *testing.T, pod *corev1.Pod) (killed time.Time) {
	t.Helper()
	agent, haproxy := theProcess(t, pod, agentProgram), master(t, pod)
	send(t, agent, syscall.SIGKILL)
	killed = kill(t, pod, haproxy)
	waitOther(t, pod, agentProgram, agent)
	// It may have to start twice, and kubelet waits in between.
	waitOther(t, pod, haproxyProgram, haproxy)
	waitPodReady(t, pod)
	return killed
}

// mountSmallVolume puts a file system of 1 MiB in the place of a pod's configuration volume, with the same content, and
// restarts both containers, which see it from then on.
func (s *site) mountSmallVolume(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	volume := configVolume(pod)
	info := must.Get(os.Stat(volume))(t)
	staging := t.TempDir()
	must.Do(t, syscall.Mount("tmpfs", staging, "tmpfs", 0, fmt.Sprintf("size=1m,mode=%o,gid=%d",
		uint32(info.Mode().Perm())|syscall.S_ISGID, info.Sys().(*syscall.Stat_t).Gid)))
	undo := func(path string) { _ = syscall.Unmount(path, syscall.MNT_DETACH) }
	t.Cleanup(func() { undo(staging) })
	if out, err := exec.Command("cp", "-a", volume+"/.", staging).CombinedOutput(); err != nil {
		t.Fatalf("failed to copy %s: %v: %s", volume, err, out)
	}
	must.Do(t, syscall.Mount(staging, volume, "", syscall.MS_BIND, ""))
	// kubelet cannot remove the volume with the pod while something is mounted on it.
	t.Cleanup(func() { undo(volume) })
	s.restartPod(t, pod)
	return volume
}

// fill writes until there is no space left.
func fill(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path) //nolint:gosec // a path of the test's own
	must.Do(t, err)
	defer file.Close() //nolint:errcheck // it holds nothing of use
	// Large pieces first, then what is left of a page.
	for _, size := range []int{4096, 1} {
		for err = nil; err == nil; {
			_, err = file.Write(bytes.Repeat([]byte("x"), size))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("failed to fill %s: %v", path, err)
		}
	}
}
