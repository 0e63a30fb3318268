package certificates

import (
	"bytes"
	"encoding/pem"
	"slices"
	"strings"
	"testing"
	"time"

	"gateway/internal/certtest"
)

// renamed is a certificate in a block of another type.
func renamed(certificate []byte, blockType string) []byte {
	return bytes.ReplaceAll(certificate, []byte(" CERTIFICATE-"), []byte(" "+blockType+"-"))
}

// der is the first block without what PEM adds.
func der(content []byte) []byte {
	block, _ := pem.Decode(content)
	return block.Bytes
}

func TestParse(t *testing.T) {
	authority := certtest.NewAuthority(t)
	pair := authority.Issue(t, []string{"shop.example.com"})
	bad := "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
	tests := map[string]struct {
		content []byte
		chain   int
		problem string
	}{
		"a certificate":              {pair.Certificate, 1, ""},
		"with those that lead to it": {slices.Concat(pair.Certificate, authority.PEM), 2, ""},
		"with remarks":               {slices.Concat([]byte("subject=shop\n"), pair.Certificate, []byte("bye\n")), 1, ""},
		"with parameters":            {slices.Concat([]byte(parameters), pair.Certificate), 1, ""},
		"no names":                   {authority.Issue(t, nil).Certificate, 1, ""},
		"nothing":                    {nil, 0, "tls.crt holds no certificate"},
		"no PEM":                     {[]byte("hello"), 0, "tls.crt holds no certificate"},
		"not a certificate":          {[]byte(bad), 0, "certificate 1 in tls.crt cannot be read: x509: malformed"},
		"a damaged second":           {append(bytes.Clone(pair.Certificate), bad...), 0, "certificate 2 in tls.crt cannot be read"},
		"cut short":                  {slices.Concat(pair.Certificate, pair.Certificate[:60]), 0, "what follows certificate 1 in tls.crt is damaged"},
		"with the key":               {slices.Concat(pair.Certificate, pair.Key), 0, "tls.crt holds a private key"},
		"no line break between two":  {glued(pair.Certificate, authority.PEM), 0, "block 2 in tls.crt does not begin on a new line: put a line break before its -----BEGIN"},
		"none before the first":      {slices.Concat([]byte("\ufeff"), pair.Certificate), 0, "block 1 in tls.crt does not begin on a new line"},
		"an indented second":         {slices.Concat(pair.Certificate, []byte(" "), authority.PEM, pair.Certificate), 0, "block 2 in tls.crt does not begin on a new line"},
		"Windows' line breaks":       {bytes.ReplaceAll(slices.Concat(pair.Certificate, authority.PEM), []byte("\n"), []byte("\r\n")), 2, ""},
		"OpenSSL's trusted ones":     {bytes.ReplaceAll(pair.Certificate, []byte(" CERT"), []byte(" TRUSTED CERT")), 0, "certificate 1 in tls.crt has the PEM type TRUSTED CERTIFICATE, not CERTIFICATE: convert it with openssl x509"},
		"a trusted second":           {slices.Concat(pair.Certificate, bytes.ReplaceAll(authority.PEM, []byte(" CERT"), []byte(" TRUSTED CERT"))), 0, "certificate 2 in tls.crt has the PEM type TRUSTED CERTIFICATE"},
		"OpenSSL's old name":         {bytes.ReplaceAll(pair.Certificate, []byte(" CERT"), []byte(" X509 CERT")), 0, "certificate 1 in tls.crt has the PEM type X509 CERTIFICATE"},
		"a request":                  {renamed(pair.Certificate, "CERTIFICATE REQUEST"), 0, "tls.crt holds no certificate but a request for one: put the certificate there that was issued"},
		"PKCS7":                      {renamed(pair.Certificate, "PKCS7"), 0, "tls.crt holds no certificate but PKCS7: convert it with openssl pkcs7 -print_certs"},
		"DER":                        {der(pair.Certificate), 0, "tls.crt holds no certificate in PEM but one in DER: convert it with openssl x509 -inform der"},
		"a short RSA key":            {authority.Issue(t, nil, certtest.RSA(t, 1024)).Certificate, 0, "the certificate has an RSA key of 1024 bits"},
		"a long RSA key":             {authority.Issue(t, nil, certtest.RSA(t, 2048)).Certificate, 1, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			chain, problem := Parse(test.content)
			if len(chain) != test.chain || !strings.HasPrefix(problem, test.problem) || (test.problem == "") != (problem == "") {
				t.Errorf("got %d certificates, problem %q", len(chain), problem)
			}
		})
	}
}

func TestCheckTime(t *testing.T) {
	second := func(n float64) time.Time {
		return time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(n * float64(time.Second)))
	}
	// Whatever the machine's zone is.
	from, to := second(10).In(time.FixedZone("east", 3600)), second(20).In(time.FixedZone("west", -3600))
	const early, expired = "the certificate is not valid before 2026-06-01 12:00:10 UTC", "the certificate expired on 2026-06-01 12:00:20 UTC"
	for now, want := range map[time.Time]struct {
		problem string
		until   time.Time
	}{
		second(9.5):  {early, second(10)},
		second(10):   {"", second(21)},
		second(20.9): {"", second(21)},
		second(21):   {expired, time.Time{}},
		second(30):   {expired, time.Time{}},
	} {
		if problem, until := CheckTime(from, to, now); problem != want.problem || !until.Equal(want.until) {
			t.Errorf("at %s: got %q until %s, want %q until %s", now, problem, until, want.problem, want.until)
		}
	}
}

func TestJoin(t *testing.T) {
	authority := certtest.NewAuthority(t)
	one, two, rsa := authority.Issue(t, nil), authority.Issue(t, nil), authority.Issue(t, nil, certtest.RSA(t, 2048))
	unknown := certtest.Refused()
	const wrong = "tls.key is not the key of its certificate: "
	damaged := bytes.Replace(one.Key, []byte("-----END"), []byte("-----BEGIN"), 1)
	tests := map[string]struct {
		certificate, key []byte
		public           []byte
		problem          string
	}{
		"they fit":                  {one.Certificate, one.Key, one.Certificate, ""},
		"with the authority":        {slices.Concat(one.Certificate, authority.PEM), one.Key, slices.Concat(one.Certificate, authority.PEM), ""},
		"with remarks":              {slices.Concat([]byte("subject=\n"), one.Certificate), slices.Concat([]byte("key:\n"), one.Key), one.Certificate, ""},
		"RSA":                       {rsa.Certificate, rsa.Key, rsa.Certificate, ""},
		"a kind Go does not know":   {unknown.Certificate, unknown.Key, unknown.Certificate, ""},
		"a damaged key before":      {slices.Concat(damaged, one.Certificate), one.Key, one.Certificate, ""},
		"a key without its markers": {slices.Concat(one.Certificate, bytes.Split(one.Key, []byte("\n"))[1]), one.Key, one.Certificate, ""},
		"a damaged one in tls.key":  {one.Certificate, slices.Concat(damaged[:len(damaged)-1], []byte("\n"), one.Key), one.Certificate, ""},
		"parameters before the key": {one.Certificate, slices.Concat([]byte(parameters), one.Key), one.Certificate, ""},
		"another's key":             {one.Certificate, two.Key, nil, wrong + "private key does not match public key"},
		"a key of another kind":     {one.Certificate, rsa.Key, nil, wrong + "private key type does not match public key type"},
		"a key that is none":        {one.Certificate, []byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"), nil, "tls.key holds a private key that cannot be read"},
		"no key":                    {one.Certificate, nil, nil, "it has no tls.key"},
		"no PEM":                    {one.Certificate, []byte("100%"), nil, "tls.key holds no private key"},
		"a certificate for a key":   {one.Certificate, one.Certificate, nil, "tls.key holds no private key"},
		"a key with a password":     {one.Certificate, bytes.ReplaceAll(one.Key, []byte(" PRIVATE"), []byte(" ENCRYPTED PRIVATE")), nil, "tls.key is encrypted: decrypt it with openssl pkey"},
		"the same in OpenSSL's way": {one.Certificate, bytes.Replace(one.Key, []byte("-----\n"), []byte("-----\nProc-Type: 4,ENCRYPTED\n\n"), 1), nil, "tls.key is encrypted: decrypt it with openssl pkey"},
		"the authority first": {
			slices.Concat(authority.PEM, authority.PEM, rsa.Certificate), rsa.Key, nil,
			"tls.crt begins with another certificate than that of tls.key, which is certificate 3: " +
				"put it first, and after it each one that signed the one before",
		},
		"parameters and no line break": {
			one.Certificate, glued([]byte(parameters), one.Key), nil,
			"block 2 in tls.key does not begin on a new line: put a line break before its -----BEGIN",
		},
		"no certificate": {nil, one.Key, nil, "tls.crt holds no certificate"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pair, problem := Join(test.certificate, test.key)
			joined := pair.Joined
			if problem != test.problem || (joined == nil) != (test.problem != "") {
				t.Fatalf("got %q, problem %q, want %q", joined, problem, test.problem)
			}
			if !bytes.Equal(public(joined), test.public) {
				t.Errorf("the certificates are %q, want %q", public(joined), test.public)
			}
			if !bytes.HasPrefix(joined, test.public) || test.problem == "" && !bytes.HasSuffix(test.key, joined[len(test.public):]) {
				t.Errorf("got %q", joined)
			}
		})
	}
}
