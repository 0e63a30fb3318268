// Package systemroots has the certificates of public authorities. The images of the proxies need none then, and all
// proxies trust the same ones.
package systemroots

import (
	"bytes"
	"encoding/pem"
	"sync"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// PEM returns the certificates of the authorities that Mozilla trusts. It leaves out those that Mozilla trusts for
// older certificates only: HAProxy cannot tell these from others.
var PEM = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // which never fails
		}
	}
	return b.Bytes()
})
