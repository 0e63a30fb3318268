package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gateway/internal/must"
)

func TestParse(t *testing.T) {
	tests := map[string]struct {
		arguments      []string
		pod, namespace string
		want           string
	}{
		"all that is needed":            {[]string{"-gateway=web"}, "pod", "shop", ""},
		"no Gateway":                    {nil, "pod", "shop", "-gateway is missing"},
		"no pod":                        {[]string{"-gateway=web"}, "", "shop", "$POD_NAME is not set"},
		"no namespace":                  {[]string{"-gateway=web"}, "pod", "", "$POD_NAMESPACE is not set"},
		"a relative directory":          {[]string{"-gateway=web", "-config-dir=etc"}, "pod", "shop", "-config-dir=etc is not"},
		"a directory HAProxy can't say": {[]string{"-gateway=web", "-run-dir=/run/a b"}, "pod", "shop", "-run-dir=/run/a b is not"},
		"a certificate directory HAProxy can't say": {
			[]string{"-gateway=web", "-haproxy-certificates-dir=/a b"}, "pod", "shop", "-haproxy-certificates-dir=/a b is not",
		},
		"an argument too many": {[]string{"-gateway=web", "shop"}, "pod", "shop", `unexpected argument "shop"`},
		"an unknown flag":      {[]string{"-gatewy=web"}, "pod", "shop", "-gatewy"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			o := options{pod: test.pod, namespace: test.namespace, podUID: "uid"}
			err := o.program().Parse(flag.NewFlagSet("gateway-agent", flag.ContinueOnError), test.arguments)
			if test.want == "" && err != nil {
				t.Errorf("got error %v", err)
			}
			if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("got error %v, want one line with %q", err, test.want)
			}
		})
	}
}

func TestAPodHasAUID(t *testing.T) {
	o := options{pod: "pod", namespace: "shop"}
	if err := o.program().Parse(flag.NewFlagSet("gateway-agent", flag.ContinueOnError), []string{"-gateway=web"}); err == nil || !strings.Contains(err.Error(), "$POD_UID") {
		t.Errorf("got error %v", err)
	}
}

func TestSecretsAndConfigMapsAddUp(t *testing.T) {
	o := options{pod: "pod", namespace: "shop", podUID: "uid"}
	arguments := []string{"-gateway=web", "-secret=a", "-secret=b.tls", "-configmap=ca"}
	must.Do(t, o.program().Parse(flag.NewFlagSet("gateway-agent", flag.ContinueOnError), arguments))
	if !slices.Equal(o.mounts.Secrets, []string{"a", "b.tls"}) || !slices.Equal(o.mounts.ConfigMaps, []string{"ca"}) {
		t.Errorf("got %+v", o.mounts)
	}
}

func TestHelpIsNoError(t *testing.T) {
	var o options
	if err := o.program().Parse(flag.NewFlagSet("gateway-agent", flag.ContinueOnError), []string{"-help"}); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("got %v", err)
	}
}

// TestReachable: a port of the node reaches the pod by the address families that both have.
func TestReachable(t *testing.T) {
	for name, test := range map[string]struct{ node, pod, want string }{
		"not told":              {"", "", "[]"},
		"one family":            {"192.0.2.1", "10.0.0.1", "[192.0.2.1]"},
		"both":                  {"192.0.2.1,2001:db8::1", "10.0.0.1,fd00::1", "[192.0.2.1 2001:db8::1]"},
		"the node alone has v6": {"192.0.2.1,2001:db8::1", "10.0.0.1", "[192.0.2.1]"},
		"the pod alone has v6":  {"192.0.2.1", "10.0.0.1,fd00::1", "[192.0.2.1]"},
		"none in common":        {"192.0.2.1", "fd00::1", "[]"},
		"v4 written as v6":      {"::ffff:192.0.2.1", "10.0.0.1", "[192.0.2.1]"},
		"no address":            {"node-1,fe80::1%eth0,192.0.2.1", "10.0.0.1,fd00::1", "[192.0.2.1]"},
	} {
		if got := fmt.Sprint(reachable(test.node, test.pod)); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}
