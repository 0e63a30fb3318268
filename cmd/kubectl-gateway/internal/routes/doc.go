// Package routes shows the routes of a namespace: whether they are live, what requests they get, and what is wrong.
package routes
