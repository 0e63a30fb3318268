// Package routing decides which requests of a Gateway go where.
//
// In: the model of a Gateway. Out: a Table, which holds, for every listener, what can match a request, in the order of
// precedence, with the Rule that says what happens to it, and the Problems of what could not be given a place in it.
// Table.Match says what the answer to a request has to be: a linear scan too simple to be wrong, against which the
// proxies' configuration is tested.
//
// The package is pure: the same model always gives the same Table. It knows no proxy: a Check tells which filters the
// proxies cannot carry out. What a proxy makes of a Table is in internal/haproxy, and what regular expressions become
// and cost is in internal/regex.
package routing
