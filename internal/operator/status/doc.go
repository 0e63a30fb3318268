// Package status computes a Gateway's status. In go the Gateway, what was Observed of everything around it, and the
// time; out comes the status. The functions are pure.
package status
