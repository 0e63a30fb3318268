// Package explain says what becomes of a request, by the reference matcher that HAProxy is tested against.
package explain
