// Package config makes HAProxy's configuration.
//
// In: an Input, which holds the routing table of a Gateway and what was observed of the Services and certificates behind it.
// Out: a Config, which Files turns into what HAProxy starts from, and which Diff compares with the running one to say what
// to do: commands to the running HAProxy, or a reload and its reason.
//
// The routes are data. haproxy.cfg, the skeleton, holds the ports, a section for each Service port, and rules that look
// everything else up in maps. HAProxy keeps a map in trees, so a request costs the same with ten routes as with ten
// thousand, and replaces it at run time, as a whole or, where that is safe, entry by entry: edits.go. A request goes through these rules:
//
//	section routing   normalises the request, and finds its listener and its HIT: lookups.go
//	                  requests that may have to meet conditions go a longer way: conditions.go
//	section routed    checks the connection, and carries out the PROGRAM of the rule: program.go, routed.go
//	backend sections  one for each Service port, and one for answers that need none: backends.go
//
// Connections of TCP and TLS listeners have the rules of section routing in the section of their port.
//
// These are the keys of routes.map, where HOST is a hostname, "*.example.com" or, for every host, "*":
//
//	version              GENERATION|HASH   of the Gateway, and of everything else in the map
//	l/PORT/HOST          LISTENER          the listener of a port and host
//	PORT/HOST/PATH       HIT or LIST       a path of a hostname that is exact
//	p/LISTENER/HOST/PATH HIT or LIST       a path of any other
//	r/LISTENER/HOST      LIST              regular expressions
//	c/LIST/NUMBER        HIT               what the expression of that number in a list stands for, see conditions.go
//	f/NAME               PROGRAM           what happens to a request of a rule, see program.go
//	t/TARGETS/INDEX      SECTION|f/NAME    a backend of a weighted split, with the key of its program
//	w/WEIGHTS/HEX        INDEX             a share of a weighted split, see split.go
//	n/PORT/NAME          LISTENER          the listener whose certificates are for a server name
//	h/LISTENER           TEXT              the value of Strict-Transport-Security
//	m/LISTENER           required          that clients must have a certificate
//
// PATH ends in "/" for a prefix, in "/>" for an exact path. Requests are looked up as "/path/>", so that the longest key that
// theirs begins with is the exact path, or else the longest prefix.
//
// HIT is part of a line of the access log: ROUTE","rule":"RULE","listener":"LISTENER","backend":"TARGET. TARGET is a backend section, or
// no-backend (there is none, or one that cannot be used), or answer (the program answers). If there is more to know, HIT begins with "+", and
// ends in "|f/NAME", for a program, or has "%|w/WEIGHTS|t/TARGETS" in place of TARGET, for a split. LIST is "?FILE:NAME|HITS", see
// conditions.go; HITs in lists begin with "+", too, and their LISTENER is "-". When the search is over, txn.hit is a HIT that tells all, with ROUTE
// "-" if there was no route. Where no listener takes the request it is not set, and the log has its default.
//
// The package is pure: the same Input, in whatever order its parts are, gives the same bytes.
package config
