// Package explain shows what happens to a request, by the reference matcher that HAProxy is tested against.
package explain
