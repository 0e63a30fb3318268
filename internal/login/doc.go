// Package login holds what HAProxy, gateway-keys and gateway-login must agree on about sessions of users: their keys,
// how cookies are encrypted, and the settings that HAProxy passes on with a request.
//
// A session has two cookies. SessionCookie has what HAProxy needs for each request, and HAProxy decrypts it.
// TokensCookie has what gateway-login needs to renew or end the session, and has keys that HAProxy has not. A login has
// a cookie of its own until it ends. Nobody stores sessions.
package login
