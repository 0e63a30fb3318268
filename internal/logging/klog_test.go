package logging

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/golang/glog"
	"k8s.io/klog/v2"

	"gateway/internal/must"
)

// capture returns what f makes glog write to standard error.
func capture(t *testing.T, f func()) string {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr := os.Stderr
	os.Stderr = write
	defer func() { os.Stderr = stderr }()
	f()
	glog.Flush()
	_ = write.Close()
	var out bytes.Buffer
	must.Get(io.Copy(&out, read))(t)
	return out.String()
}

func setFlag(t *testing.T, name, value string) {
	t.Helper()
	must.Do(t, flag.Set(name, value))
}

func TestKlogComesOutOfGlog(t *testing.T) {
	setFlag(t, "logtostderr", "true")
	setFlag(t, "v", "2")
	Start()
	out := capture(t, func() {
		klog.Infof("plain %d", 1)
		klog.Warning("careful")
		klog.ErrorS(errors.New("it broke"), "failed", "pod", "a b")
		klog.V(2).Info("verbose enough")
		klog.V(3).Info("too verbose")
		klog.FromContext(context.Background()).V(2).Info("contextual", "n", 7)
		klog.FromContext(context.Background()).V(3).Info("contextual, too verbose")
	})
	for _, want := range []string{"plain 1", "careful", `"failed" err="it broke" pod="a b"`, "verbose enough", `"contextual" n=7`} {
		if !strings.Contains(out, want) {
			t.Errorf("glog did not write %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "too verbose") {
		t.Errorf("-v=2 let V(3) through:\n%s", out)
	}
	if count := strings.Count(out, "klog_test.go:"); count != 5 {
		t.Errorf("%d of 5 lines name the file that logged:\n%s", count, out)
	}
	for line := range strings.Lines(out) {
		if strings.Contains(line, "failed") && !strings.HasPrefix(line, "E") {
			t.Errorf("an error is not logged as one: %s", line)
		}
	}
}
