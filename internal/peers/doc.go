// Package peers connects the HAProxy of a proxy pod with those of the Gateway's other pods, so that rate limits count
// for all of them.
//
// HAProxy sends the tables of its section of peers to each peer there, over a connection that one of the two makes.
// Names and addresses of peers are fixed, and pods come and go. So haproxy.cfg has as many peers as there may be pods,
// all at one socket of the agent. A Relay decides which pod each stands for, and passes the bytes on to the agent of
// that pod, which passes them to its HAProxy:
//
//	HAProxy -> pods.sock -> Relay -> HTTP upgrade on the health port -> Relay -> peers.sock -> HAProxy
//
// The first lines of a connection have the names of the two. The last Relay puts those in that its own HAProxy uses.
package peers
