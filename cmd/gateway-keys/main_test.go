package main

import (
	"errors"
	"flag"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	all := []string{"-secrets-dir=/secrets", "-pairs-dir=/pairs", "-certificates-dir=/certificates", "-haproxy-socket=/run/keys.sock"}
	tests := map[string]struct {
		arguments []string
		want      string
	}{
		"all that is needed":                    {all, ""},
		"no Secrets":                            {all[1:], "-secrets-dir is missing"},
		"nothing for HAProxy":                   {slices.Delete(slices.Clone(all), 1, 2), "-pairs-dir is missing"},
		"nothing for an agent":                  {slices.Delete(slices.Clone(all), 2, 3), "-certificates-dir is missing"},
		"no HAProxy":                            {all[:3], "-haproxy-socket is missing"},
		"a key server, no token":                {append(all, "-key-server=keys:8443"), "-key-server-token is missing: -key-server needs it"},
		"a key server, no place for ConfigMaps": {append(all, "-key-server=keys:8443", "-key-server-token=/t", "-key-server-ca=/c", "-logins-dir=/l"), "-authorities-dir is missing"},
		"an argument too many":                  {append(all, "shop"), `unexpected argument "shop"`},
		"an unknown flag":                       {[]string{"-secret-dir=/secrets"}, "-secret-dir"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var k keys
			err := k.program().Parse(flag.NewFlagSet("gateway-keys", flag.ContinueOnError), test.arguments)
			if test.want == "" && (err != nil || k.Secrets != "/secrets" || k.Pairs != "/pairs" || k.Certificates != "/certificates" || k.HAProxy == nil) {
				t.Errorf("got %+v, error %v", k, err)
			}
			if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("got error %v, want one line with %q", err, test.want)
			}
		})
	}
	if err := new(keys).program().Parse(flag.NewFlagSet("gateway-keys", flag.ContinueOnError), []string{"-help"}); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-help: got %v", err)
	}
}
