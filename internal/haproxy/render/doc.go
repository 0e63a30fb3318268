// Package render makes HAProxy's configuration from the routing table of a Gateway and what was observed of the
// Services and certificates behind it. It is pure.
//
// The routes are data. haproxy.cfg holds the ports, settings, and rules that look everything else up in maps. HAProxy
// keeps a map in trees, so a request costs the same with ten routes as with ten thousand. A request goes through these
// rules of "defaults routing":
//
//	normalizingLines   check the request, and normalise its host and path
//	hostLines          find the listener and the contents of its host, in hosts.map
//	searchLines        find the first entry that it meets, in paths.map; for conditions see conditions.go
//	splitLines         choose by weights, in splits.map: splits.go
//	filterLines        carry out the filters of its rule, in filters.map: package filters
//
// Most requests need one lookup in each of the first two maps, and skip the rest. The backend is the last field of
// what was found.
//
// These are the maps, where CONTENT, LIST, HITS, TARGETS and FILTERS are hashes of what they name:
//
//	hosts.map       PORT/HOST           LISTENER/ID/FILTERS|CONTENT|... HOST is reversed, see hostKey; CONTENTs of the host, then of wildcards
//	paths.map       CONTENT/PATH        HIT or ?LIST|HITS      PATH ends in "/" for a prefix, in "/>" for an exact path
//	paths.map       CONTENT~            ?LIST|HITS             the regular expressions for paths
//	conditions.map  expressions         NUMBER, or PATH        see ir.ConditionEntries
//	lists.map       NUMBER?LIST|HITS    HIT                    the hit of a list's expression with that number
//	splits.map      %WEIGHTS/HEX        NUMBER                 a share of a weighted split
//	splits.map      NUMBER%WEIGHTS|TARGETS   HIT            one of its targets
//	filters.map     FILTERS             NAME=VALUE&...         see package filters
//	addresses.map   LIST/DIGITS/HEX     0 or 1                 whether a range of addresses has access: package filters
//	keys.map        KEYS/HASH           ALGORITHM/FILE         the key that tokens name by an ID of that hash: package filters
//	keys.map        ISSUERS/HASH        NAME=VALUE&...         the parameters of an issuer whose name has that hash
//	keysets.map     SOURCE              KEYS                   the keys of a ConfigMap or URL
//	names.map       PORT/NAME           ID                     the listener whose certificates serve a server name
//	hsts.map        ID                  TEXT                   the value of Strict-Transport-Security
//
// ID is the identity of a listener that terminates TLS: a hash of its port, hostname and demands. The FILTERS of a
// listener are carried out before a rule is chosen.
//
// HIT is FILTERS|ROUTE|RULE|BACKEND, or %WEIGHTS|TARGETS for a split. FILTERS is empty for a rule without filters. A
// request goes to the last backend: another one is added to count its body. BACKEND is the backend of a Service port,
// or one that answers: no-backend (there is none, or one that cannot be used), too-long, answer (the filters answer).
//
// Only hosts.map, keysets.map, names.map and hsts.map have entries that change. All others are named after what is in
// them.
package render
