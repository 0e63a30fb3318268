package runtime

import (
	"strconv"
	"strings"
	"testing"

	"gateway/internal/haproxy/ir"
)

// FuzzReplies: HAProxy's answers may be anything. What is made of one is either an error or what the answer has.
func FuzzReplies(f *testing.F) {
	for _, seed := range []string{
		"", "\n", "Unknown command", "Pid: 12\ndescription: gateway a/b load=x-1\nStart_time_sec: 1795232339\n", "Pid: -1\nPid: x\n:\n::", "description: load=load=",
		"#<PID> <type>\n12991           master          9   0d00h00m51s     3.4.7\n",
		"Committing x\nunable to load 'x': ee key too small.\nFailed!\n", "# list\n/a/tls.pem:1 [ssl-min-ver TLSv1.2] a.io\n/a/tls.pem:2;quit [ssl-min-ver TLSv1.2] a.io\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, reply string) {
		if process, err := parseInfo(reply); err == nil && (process.LoadID == "" || !strings.Contains(reply, process.LoadID) || !strings.Contains(reply, strconv.Itoa(process.PID)[1:])) {
			t.Errorf("%q is of process %+v", reply, process)
		}
		if line := firstLine(reply); strings.Contains(line, "\n") || !strings.Contains(reply, line) {
			t.Errorf("the first line of %q is %q", reply, line)
		}
		if reason := refusal(reply, "x").Error(); strings.Contains(reason, "\n") {
			t.Errorf("the reason in %q is %q", reply, reason)
		}
		shown, err := readEntries(strings.NewReader(reply))
		for _, entries := range shown {
			for _, entry := range entries {
				if err == nil && (!isWord(entry) || !strings.Contains(reply, entry)) {
					t.Errorf("an entry in %q is %q", reply, entry)
				}
			}
		}
	})
}

// FuzzPayloads: what is sent for entries of a map is, line by line, these entries, and no line ends the command before
// its end.
func FuzzPayloads(f *testing.F) {
	for _, seed := range [][2]string{{"/a", "b c"}, {"", ""}, {"#a", "b"}, {"a b", "c"}, {"a", "b\n\nshutdown"}, {"a", " b"}, {"a\x00", "b"}, {"a;b", `"\`}, {"\u0085", "\u00a0x"}} {
		f.Add(seed[0], seed[1], 64)
	}
	f.Fuzz(func(t *testing.T, key, value string, limit int) {
		if limit < 1 || limit > maxCommand {
			return
		}
		entries := []ir.MapEntry{{Key: key, Value: value}, {Key: "k", Value: "v"}, {Key: key, Value: value}}
		sent, err := payloads(entries, limit)
		if err != nil {
			return
		}
		var got []ir.MapEntry
		for _, payload := range sent {
			if len(payload) > limit || !strings.HasSuffix(payload, "\n") {
				t.Errorf("a payload is %q, with the limit %d", payload, limit)
			}
			for line := range strings.Lines(payload) {
				key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
				got = append(got, ir.MapEntry{Key: key, Value: value})
				if line == "\n" || strings.ContainsAny(line, "\r\x00") {
					t.Errorf("%q %q has the line %q", key, value, line)
				}
			}
		}
		if len(got) != len(entries) || got[0] != entries[0] || got[1] != entries[1] || got[2] != entries[2] {
			t.Errorf("%+v were sent as %q", entries, sent)
		}
	})
}

// FuzzIsWord: a word is one argument of a command, and ends none.
func FuzzIsWord(f *testing.F) {
	for _, seed := range []string{"", "a/b", "a b", "a;quit", "a\nquit", `a\`, "a'", "\u2028", "a#", `a"b`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if fields := strings.FieldsFunc(s, func(r rune) bool { return r <= ' ' || strings.ContainsRune(";'\\#\x7f", r) }); isWord(s) != (len(fields) == 1 && fields[0] == s) {
			t.Errorf("isWord(%q) is %v", s, isWord(s))
		}
	})
}
