package main

import (
	"errors"
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gateway/internal/preflight"
)

func TestParse(t *testing.T) {
	tests := map[string]struct {
		arguments []string
		want      string
	}{
		"nothing is needed":              {nil, ""},
		"the flags of sample-controller": {[]string{"-kubeconfig=/tmp/config", "-master=https://localhost:6443"}, ""},
		"an unknown flag":                {[]string{"-colour"}, "flag provided but not defined: -colour"},
		"a bad value":                    {[]string{"-workers=many"}, `invalid value "many" for flag -workers: parse error`},
		"nobody works":                   {[]string{"-workers=0"}, `invalid value "0" for flag -workers: it has to be at least 1`},
		"a time that is over":            {[]string{"-resync=-1s"}, `invalid value "-1s" for flag -resync: it must not be negative`},
		"no resync":                      {[]string{"-resync=0"}, ""},
		"several namespaces":             {[]string{"-namespace=shop,web"}, `invalid value "shop,web" for flag -namespace: it has to be the name of one namespace`},
		"no namespace for the lease":     {[]string{"-leader-elect-namespace=A"}, `invalid value "A" for flag -leader-elect-namespace: it has to be the name of one namespace`},
		"no name for the lease":          {[]string{"-leader-elect-name="}, `invalid value "" for flag -leader-elect-name: it has to be the name of a Lease, like gateway-operator`},
		"a name that no Lease has":       {[]string{"-leader-elect-name=a_b"}, `invalid value "a_b" for flag -leader-elect-name: it has to be the name of a Lease, like gateway-operator`},
		"names":                          {[]string{"-namespace=shop", "-leader-elect-namespace=1-system", "-leader-elect-name=shop.gateway"}, ""},
		"no lease, so no name for it":    {[]string{"-leader-elect=false", "-leader-elect-name="}, ""},
		"an argument":                    {[]string{"-workers=1", "start"}, `unexpected argument "start"`},
		"help":                           {[]string{"-help"}, flag.ErrHelp.Error()},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var options options
			flags := flag.NewFlagSet("gateway", flag.ContinueOnError)
			options.define(flags)
			got := ""
			if err := options.parse(flags, test.arguments); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got the error %q, want %q", got, test.want)
			}
		})
	}
}

func TestUsageNamesEveryFlag(t *testing.T) {
	var options options
	flags := flag.NewFlagSet("gateway", flag.ContinueOnError)
	options.define(flags)
	flags.Bool("logtostderr", false, "one of glog's")
	var out strings.Builder
	usage(&out, flags)
	flags.VisitAll(func(f *flag.Flag) {
		if strings.Count(out.String(), "\n  -"+f.Name) == 0 {
			t.Errorf("-%s is not in the help", f.Name)
		}
		if f.Usage == "" {
			t.Errorf("-%s has no description", f.Name)
		}
	})
	if logs := strings.Index(out.String(), "\nLogs"); logs < 0 || strings.Index(out.String(), "\n  -logtostderr\n") < logs {
		t.Error("the flags that are not ours are not under their own title")
	}
}

func TestLeaseNamespace(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "")
	if got := leaseNamespace(options{leaderElect: true}); got != "default" {
		t.Errorf("outside of a pod the lease is in %q, want default", got)
	}
	t.Setenv("POD_NAMESPACE", "pods")
	if got := leaseNamespace(options{leaderElect: true}); got != "pods" {
		t.Errorf("in a pod the lease is in %q, want that of the pod", got)
	}
	if got := leaseNamespace(options{leaderElect: true, leaderElectNamespace: "flags"}); got != "flags" {
		t.Errorf("the lease is in %q, want what the flag says", got)
	}
	if got := leaseNamespace(options{leaderElectNamespace: "flags"}); got != "" {
		t.Errorf("without leader election the lease is in %q, want none", got)
	}
}

func TestMissingKubeconfig(t *testing.T) {
	err := run(t.Context(), options{kubeconfig: "testdata/no-such-file"})
	if err == nil || !strings.Contains(err.Error(), "testdata/no-such-file does not exist") {
		t.Errorf("got the error %v, want one that names the file", err)
	}
	if errors.Is(err, os.ErrNotExist) {
		t.Error("the error repeats what the system said")
	}
}

// TestPermissions compares what the ClusterRole grants, which is generated from the markers in controller.go, with what
// is asked for at the start.
func TestPermissions(t *testing.T) {
	source, err := os.ReadFile("controller.go")
	must(t, err)
	var granted, leases []string
	marker := regexp.MustCompile(`(?m)^// \+kubebuilder:rbac:groups=([^,]*),(namespace=[^,]*,)?resources=([^,]*),verbs=(\S*)$`)
	for _, match := range marker.FindAllStringSubmatch(string(source), -1) {
		for resource := range strings.SplitSeq(match[3], ";") {
			permission := strings.Trim(match[1], `"`) + "/" + resource + ": " + strings.ReplaceAll(match[4], ";", ",")
			if match[2] == "" {
				granted = append(granted, permission)
			} else {
				leases = append(leases, permission)
			}
		}
	}
	expectPermissions(t, granted, preflight.Permissions)
	expectPermissions(t, leases, preflight.LeasePermissions)
	for _, resource := range []string{"secrets", "configmaps", "*"} {
		if strings.Contains(strings.Join(granted, " "), "/"+resource+":") {
			t.Errorf("the operator may read %s", resource)
		}
	}
}

func expectPermissions(t *testing.T, granted []string, permissions []preflight.Permission) {
	t.Helper()
	var asked []string
	for _, permission := range permissions {
		asked = append(asked, permission.Group+"/"+permission.Resource+": "+strings.Join(permission.Verbs, ","))
	}
	slices.Sort(granted)
	slices.Sort(asked)
	if !slices.Equal(granted, asked) {
		t.Errorf("granted\n  %s\nasked for\n  %s", strings.Join(granted, "\n  "), strings.Join(asked, "\n  "))
	}
}
