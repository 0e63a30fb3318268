// Package runtime talks to a running HAProxy through its two command-line sockets: the master's, which loads a new
// configuration, and the worker's, which changes maps and servers without one.
//
// In: typed calls. Out: whether HAProxy confirmed them. Any other answer, silence or a lost connection is an error.
// Every call opens a connection of its own, ends by a deadline or with its context, and may be made from several
// goroutines. The caller knows what should run. The package remembers only which old workers hang, so that it does not
// ask them again.
package runtime
