// Package haproxytest runs real HAProxy in tests, the way the data-plane pod runs it: master-worker mode, a symlink
// named current to the directory of the configuration in use, and the two sockets in a run directory.
//
// In: rendered files. Out: a running HAProxy, its paths and its log, which is printed when the test fails. A test that
// cannot find HAProxy fails: what is claimed about HAProxy is never taken on trust.
package haproxytest
