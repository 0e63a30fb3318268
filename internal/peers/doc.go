// Package peers connects the HAProxy of a proxy pod with the HAProxy of each other pod of the Gateway, so that rate
// limits count for all of them.
//
// HAProxy sends the tables of its peers section to each peer in it, over a connection that one of the two makes. Names
// and addresses of peers are fixed, and pods come and go. So haproxy.cfg has as many peers as there may be pods, all
// at one socket of the agent. A Relay decides which pod each peer stands for, and passes the bytes on to the agent of
// that pod, which passes them to its HAProxy:
//
//	HAProxy -> pods.sock -> Relay -> HTTP upgrade on the health port -> Relay -> peers.sock -> HAProxy
//
// The first lines of a connection have the names of the two peers. The last Relay replaces them with the names that
// its own HAProxy uses.
package peers
