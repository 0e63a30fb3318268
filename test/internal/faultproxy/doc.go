// Package faultproxy stands between the project's programs and what they talk to, and makes of it what a test wants to
// see go wrong: Proxy before an API server, Socket before one of HAProxy's sockets.
package faultproxy
