// Package passwords answers HAProxy whether a user may log in, from lists as htpasswd writes them. In: the files of
// Secrets, and requests with the header Authorization. Out: 200, 401 or 503. It never logs, and nothing of a password
// or of its hash is in what it returns.
package passwords
