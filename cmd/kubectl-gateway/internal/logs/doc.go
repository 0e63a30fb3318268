// Package logs shows the access logs of all proxy pods of a Gateway as one.
package logs
