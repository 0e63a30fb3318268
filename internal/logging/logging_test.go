package logging

import (
	"encoding/json"
	"errors"
	"flag"
	"log"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/klog/v2"
)

// logAll logs by everything that logs.
func logAll() {
	Infof("plain %d", 1)
	Warningf("careful")
	Errorf("%v", errors.New("first\nsecond"))
	V(1).Infof("verbose enough")
	V(2).Infof("too verbose")
}

func TestText(t *testing.T) {
	setFlag(t, "logtostderr", "true")
	setFlag(t, "v", "1")
	out := capture(t, logAll)
	for _, want := range []string{"I plain 1\n", "W careful\n", "E first\n", "I verbose enough\n"} {
		severity, message, _ := strings.Cut(want, " ")
		if !slices.ContainsFunc(slices.Collect(strings.Lines(out)), func(line string) bool {
			return strings.HasPrefix(line, severity) && strings.HasSuffix(line, "] "+message) && strings.Contains(line, " logging_test.go:")
		}) {
			t.Errorf("no line of this file has severity %s and message %q:\n%s", severity, message, out)
		}
	}
	if strings.Contains(out, "too verbose") {
		t.Errorf("-v=1 let V(2) through:\n%s", out)
	}
}

func TestJSON(t *testing.T) {
	setFlag(t, "v", "1")
	output, flags := log.Writer(), log.Flags()
	t.Cleanup(func() {
		log.SetOutput(output)
		log.SetFlags(flags)
		klog.ClearLogger()
		setFlag(t, "log-format", "text")
	})
	out := capture(t, func() {
		setFlag(t, "log-format", "json")
		Failed("program", errors.New("a flag\nis wrong"))
		Start()
		logAll()
		klog.Warning("of klog")
		klog.ErrorS(errors.New("it broke"), "failed", "pod", "a b")
		klog.Background().V(1).Info("contextual", "n", 7)
		klog.Background().V(2).Info("contextual, too verbose")
		log.Print("of net/http")
	})
	want := []map[string]any{
		{"level": "ERROR", "msg": "a flag; is wrong"},
		{"level": "INFO", "msg": "plain 1"},
		{"level": "WARN", "msg": "careful"},
		{"level": "ERROR", "msg": "first\nsecond"},
		{"level": "INFO", "msg": "verbose enough"},
		{"level": "INFO", "msg": "of klog"},
		{"level": "ERROR", "msg": "failed", "err": "it broke", "pod": "a b"},
		{"level": "INFO", "msg": "contextual", "n": 7.},
		{"level": "INFO", "msg": "of net/http"},
	}
	lines := slices.Collect(strings.Lines(out))
	if len(lines) != len(want) {
		t.Fatalf("%d records, want %d:\n%s", len(lines), len(want), out)
	}
	for i, line := range lines {
		var got map[string]any
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if source, _ := got["source"].(string); got["msg"] != "of net/http" && !strings.HasPrefix(source, "logging_test.go:") || got["time"] == nil {
			t.Errorf("the record has not the time, or not the place that logged: %s", line)
		}
		delete(got, "source")
		delete(got, "time")
		if !maps.Equal(got, want[i]) {
			t.Errorf("got %s, want %v", line, want[i])
		}
	}
}

func TestUnknownFormat(t *testing.T) {
	if err := flag.Set("log-format", "xml"); err == nil || err.Error() != "it has to be text or json" {
		t.Errorf("got %v", err)
	}
}
