// Package config makes HAProxy's configuration.
//
// In: an Input, which holds the routing table of a Gateway and what was observed of the Services behind it. Out: a
// Config, which Files turns into what HAProxy starts from, and which Diff compares with the running one to say what to
// do: commands to the running HAProxy, or a reload and its reason.
//
// The routes are data. haproxy.cfg, the skeleton, holds the ports, a section for each Service port, and a handful of
// rules that look everything else up in one map file. HAProxy keeps a map in trees, so a request costs the same with
// ten routes as with ten thousand, and replaces it as a whole at run time. These are the keys of routes.map, where HOST
// is a hostname, "*.example.com" or, for every host, "*":
//
//	version              GENERATION|HASH        of the Gateway, and of everything else in the map
//	l/PORT/HOST          LISTENER               the listener of a port and host
//	e/LISTENER/HOST/PATH ROUTE|RULE|TARGET      an exact path
//	p/LISTENER/HOST/PATH ROUTE|RULE|TARGET      a prefix; PATH ends in a slash
//	w/WEIGHTS/HEX        INDEX                  a share of a weighted split, see split.go
//	t/BACKENDS/INDEX     BACKEND                a backend of a weighted split
//
// TARGET is a backend section, or 500 (no backend, or a Service that does not exist), or "%|WEIGHTS|BACKENDS".
//
// The package is pure: the same Input, in whatever order its parts are, gives the same bytes.
package config
