// Package testenv starts what the black-box tests need: a real API server with the project's CRD, and the project's
// programs as their users start them. In goes $KUBEBUILDER_ASSETS, a directory with kube-apiserver, etcd and kubectl,
// and with kube-scheduler for the test that needs one.
package testenv
