// Package runtime talks to a running HAProxy through its two command-line sockets: the master's, which loads a new
// configuration, and the worker's, which changes maps and servers without one.
//
// In: what to do, as typed calls. Out: whether HAProxy said it was done; any other answer, silence or a lost connection
// is an error. Every call opens a connection of its own, ends by a deadline or with its context, and may be made from
// several goroutines. What should run is the caller's knowledge. The package remembers only which old workers hang, so
// that they are not asked again.
package runtime
