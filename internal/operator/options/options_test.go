package options

import (
	"flag"
	"strings"
	"testing"
)

// newLogs returns what stands for glog's flags.
func newLogs() *flag.FlagSet {
	logs := flag.NewFlagSet("logs", flag.ContinueOnError)
	logs.Bool("logtostderr", false, "one of glog's")
	return logs
}

func TestParse(t *testing.T) {
	tests := map[string]struct {
		arguments []string
		want      string
	}{
		"nothing is needed":              {nil, ""},
		"the flags of sample-controller": {[]string{"-kubeconfig=/tmp/config", "-master=https://localhost:6443"}, ""},
		"a flag for logs":                {[]string{"-logtostderr"}, ""},
		"an unknown flag":                {[]string{"-colour"}, "flag provided but not defined: -colour"},
		"a bad value":                    {[]string{"-workers=many"}, `invalid value "many" for flag -workers: parse error`},
		"nobody works":                   {[]string{"-workers=0"}, `invalid value "0" for flag -workers: it has to be at least 1`},
		"a time that is over":            {[]string{"-resync=-1s"}, `invalid value "-1s" for flag -resync: it must not be negative`},
		"no resync":                      {[]string{"-resync=0"}, ""},
		"several namespaces":             {[]string{"-namespace=shop,web"}, `invalid value "shop,web" for flag -namespace: it has to be the name of one namespace`},
		"no namespace for Gateways":      {[]string{"-ingress-namespace=A"}, `invalid value "A" for flag -ingress-namespace: it has to be the name of one namespace`},
		"Ingresses of one namespace":     {[]string{"-namespace=a", "-ingress-namespace=a"}, "the flags -namespace and -ingress-namespace exclude each other: Ingresses are served in all namespaces"},
		"no namespace for the lease":     {[]string{"-leader-elect-namespace=A"}, `invalid value "A" for flag -leader-elect-namespace: it has to be the name of one namespace`},
		"no name for the lease":          {[]string{"-leader-elect-name="}, `invalid value "" for flag -leader-elect-name: it has to be the name of a Lease, like gateway-operator`},
		"a name that no Lease has":       {[]string{"-leader-elect-name=a_b"}, `invalid value "a_b" for flag -leader-elect-name: it has to be the name of a Lease, like gateway-operator`},
		"names":                          {[]string{"-namespace=shop", "-leader-elect-namespace=1-system", "-leader-elect-name=shop.gateway"}, ""},
		"no lease, so no name for it":    {[]string{"-leader-elect=false", "-leader-elect-name="}, ""},
		"a key server without port":      {[]string{"-key-server=keys"}, `invalid value "keys" for flag -key-server: it has to be host:port`},
		"a key server":                   {[]string{"-key-server=keys.example.com:8443"}, ""},
		"an argument":                    {[]string{"-workers=1", "start"}, `unexpected argument "start"`},
		"help":                           {[]string{"-help"}, flag.ErrHelp.Error()},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			logs := newLogs()
			got := ""
			if _, err := Parse(test.arguments, logs); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got the error %q, want %q", got, test.want)
			}
			if set := logs.Lookup("logtostderr").Value.String() == "true"; set != (name == "a flag for logs") {
				t.Errorf("the flag for logs is set: %v", set)
			}
		})
	}
}

func TestUsageNamesEveryFlag(t *testing.T) {
	usage := Usage(newLogs())
	new(Options).flags().VisitAll(func(f *flag.Flag) {
		if strings.Count(usage, "\n  -"+f.Name) == 0 {
			t.Errorf("-%s is not in the help", f.Name)
		}
		if f.Usage == "" {
			t.Errorf("-%s has no description", f.Name)
		}
	})
	if !strings.Contains(usage, `name of the lease (default "gateway-operator")`) {
		t.Errorf("the help lacks a default:\n%s", usage)
	}
	if logs := strings.Index(usage, "\nLogs"); logs < 0 || strings.Index(usage, "\n  -logtostderr\n") < logs {
		t.Error("the flags that are not ours are not under their own title")
	}
}

func TestLeaseNamespace(t *testing.T) {
	get := func(o Options) string { return o.LeaseNamespace() }
	t.Setenv("POD_NAMESPACE", "")
	if got := get(Options{LeaderElect: true}); got != "default" {
		t.Errorf("outside of a pod the lease is in %q, want default", got)
	}
	t.Setenv("POD_NAMESPACE", "pods")
	if got := get(Options{LeaderElect: true}); got != "pods" {
		t.Errorf("in a pod the lease is in %q, want that of the pod", got)
	}
	if got := get(Options{LeaderElect: true, LeaderElectNamespace: "flags"}); got != "flags" {
		t.Errorf("the lease is in %q, want what the flag says", got)
	}
	if got := get(Options{LeaderElectNamespace: "flags"}); got != "" {
		t.Errorf("without leader election the lease is in %q, want none", got)
	}
}
