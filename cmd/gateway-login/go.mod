module gateway/cmd/gateway-login

go 1.27.0

toolchain go1.27.4

replace gateway => ../..

require (
	gateway v0.0.0
	github.com/coreos/go-oidc/v3 v3.21.0
	github.com/go-jose/go-jose/v4 v4.1.4
	golang.org/x/oauth2 v0.37.0
)

require (
	github.com/go-logr/logr v1.4.3 // indirect
	github.com/golang/glog v1.2.5 // indirect
	golang.org/x/crypto/x509roots/fallback v0.0.0-20261030153154-30a33513ff6d // indirect
	k8s.io/klog/v2 v2.140.0 // indirect
)
