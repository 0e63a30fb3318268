package certtest

// Fixed is a pair for a.example.com and *.Example.com, which lasts until 2126. It is for fuzz targets: OSS-Fuzz calls
// them for each input, and with a type that is no testing.TB.
func Fixed() Pair { return Pair{Certificate: []byte(fixedCertificate), Key: []byte(fixedKey)} }

const (
	fixedCertificate = `-----BEGIN CERTIFICATE-----
MIIBoDCCAUagAwIBAgIUOxO+IJoE+J2mPDEuUv2JAyWHS84wCgYIKoZIzj0EAwIw
EDEOMAwGA1UEAwwFZml4ZWQwIBcNMjYxMTMwMDYxNzA2WhgPMjEyNjExMDYwNjE3
MDZaMBAxDjAMBgNVBAMMBWZpeGVkMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE
c5hGTuNQOfoktMmB8Ec9CyG//SMQSU5j0/MiwVKN3wKthfAbiidZ7dgC0j8B4E8v
duUdkz87Kkpgy+afa+71XqN8MHowHQYDVR0OBBYEFHnbZVh1+Z001FrXjs5yj0tk
h/xGMB8GA1UdIwQYMBaAFHnbZVh1+Z001FrXjs5yj0tkh/xGMA8GA1UdEwEB/wQF
MAMBAf8wJwYDVR0RBCAwHoINYS5leGFtcGxlLmNvbYINKi5FeGFtcGxlLmNvbTAK
BggqhkjOPQQDAgNIADBFAiAadswR80HZBDlSHnxEdb7cSpjMwBPPpwRMbXlrqfNx
PwIhANbAdRD+7u55zbmoS1sOcG069W+Mboxg2JsvSoWp9E3k
-----END CERTIFICATE-----
`
	fixedKey = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgW+cJ1FTQVebr4eoN
05LIasAd+DmLYO/goXqrXZ6Q3B6hRANCAARzmEZO41A5+iS0yYHwRz0LIb/9IxBJ
TmPT8yLBUo3fAq2F8BuKJ1nt2ALSPwHgTy925R2TPzsqSmDL5p9r7vVe
-----END PRIVATE KEY-----
`
)
