// Package wait waits until every proxy runs the latest generation of objects.
package wait
