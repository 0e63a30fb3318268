// Package status says what a Gateway's status should be. In go the Gateway, what was Observed of everything around it,
// and the time; out comes the status. The functions are pure.
package status
