// Package status says what a Gateway's status should be. In go the Gateway, what was Observed of everything around it,
// and the time; out comes the part of the status that the operator owns: all but status.proxies, which the proxies write
// themselves. The functions are pure.
package status
