package examples

import (
	"slices"
	"testing"

	"gateway/internal/must"
)

func TestCommands(t *testing.T) {
	t.Parallel()
	got := commands("What it shows: a # b.\n\n" +
		"    curl $GATEWAY/     # \"version\":\"v1\"\n" +
		"    curl \\\n      $GATEWAY/#a  # curl: (\n" +
		"    for name in a b; do\n      make $name\n    done\n" +
		"    wait\n")
	want := []Command{
		{"curl $GATEWAY/", `"version":"v1"`},
		{"curl \\\n  $GATEWAY/#a", "curl: ("},
		{"for name in a b; do\n  make $name\ndone", ""},
		{"wait", ""},
	}
	if !slices.Equal(got, want) {
		t.Errorf("the commands are %q, want %q", got, want)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	example := must.Get(parse("x", []byte("# One.\n#\n#     curl\nkind: Service\n# no comment of the file\n---\nkind: Gateway\n")))(t)
	if example.Comment != "One.\n\n    curl\n" || len(example.Commands) != 1 || len(example.Objects) != 2 ||
		len(example.Gateways()) != 1 {
		t.Errorf("the example is %+v", example)
	}
	if _, err := parse("x", []byte("kind: Gateway\nkind: Gateway\n")); err == nil {
		t.Error("a key that is there twice was accepted")
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		command Command
		good    bool
	}{
		{Command{"echo -n shop $X $GATEWAY", "other 1 192.0.2.1"}, true},
		{Command{"echo -n shop $X", "nothing"}, false},
		{Command{"echo hello >&2; false", "hello"}, true},
		{Command{"true", ""}, true},
		{Command{"false", ""}, false},
	} {
		err := test.command.Run(t.Context(), t.TempDir(), "other", "X=1", "GATEWAY=192.0.2.1")
		if (err == nil) != test.good {
			t.Errorf("%q ended with %v, want good: %t", test.command, err, test.good)
		}
	}
}

func TestSplit(t *testing.T) {
	t.Parallel()
	commands := []Command{{"make", ""}, {"curl $GATEWAY", "a"}, {"make", ""}}
	setup, requests := Example{Commands: commands}.Split()
	if !slices.Equal(setup, commands[:1]) || !slices.Equal(requests, commands[1:]) {
		t.Errorf("split into %q and %q", setup, requests)
	}
}
