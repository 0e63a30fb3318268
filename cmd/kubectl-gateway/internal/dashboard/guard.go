package dashboard

import (
	"net"
	"net/http"
)

// headers keep other pages from using what is served here, and this page from using anything else.
var headers = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cache-Control":                "no-store",
}

// guard lets only reads in, and only those that were meant for this address: a page of another host, whose name was
// made to lead here after it was loaded, asks with that name.
func guard(address string, next http.Handler) http.Handler {
	_, port, _ := net.SplitHostPort(address)
	hosts := map[string]bool{address: true, net.JoinHostPort("localhost", port): true}
	return http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		for name, value := range headers {
			writer.Header().Set(name, value)
		}
		switch {
		case !hosts[request.Host]:
			http.Error(writer, "this page is at http://"+address+"/", http.StatusMisdirectedRequest)
		case request.Method != http.MethodGet:
			writer.Header().Set("Allow", http.MethodGet)
			http.Error(writer, "this page is only to be read", http.StatusMethodNotAllowed)
		default:
			next.ServeHTTP(writer, request)
		}
	})
}
