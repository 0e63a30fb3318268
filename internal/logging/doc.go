// Package logging makes one log of two: what client-go writes through klog comes out through glog, so that glog's flags
// govern all of it. In: records of klog. Out: lines of glog, with klog's file and line.
package logging
