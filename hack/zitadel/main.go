// Command zitadel is the OpenID provider of ZITADEL's library, for tests: it keeps everything in memory, has a page
// where users log in, and can log them out.
package main

import (
	"context"
	"flag"
	"log"
	"net/http"
	"os"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// store knows a client that users come back to from a logout, too.
type store struct {
	*storage.Storage

	loggedOut string
}

type client struct {
	op.Client

	loggedOut string
}

func (s store) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	found, err := s.Storage.GetClientByClientID(ctx, id)
	return client{found, s.loggedOut}, err
}

func (c client) PostLogoutRedirectURIs() []string { return []string{c.loggedOut} }

// IDTokenUserinfoClaimsAssertion has ID tokens name the email address.
func (client) IDTokenUserinfoClaimsAssertion() bool { return true }

func main() {
	address := flag.String("address", "", "`address` to listen at")
	issuer := flag.String("issuer", "", "`URL` of the provider")
	redirect := flag.String("redirect", "", "`URL` that users are sent back to after a login")
	loggedOut := flag.String("logged-out", "", "`URL` that users are sent back to after a logout")
	flag.Parse()
	storage.RegisterClients(storage.WebClient("shop", os.Getenv("CLIENT_SECRET"), *redirect))
	users := storage.NewStorage(storage.NewUserStore("http://localhost:80"))
	provider := exampleop.SetupServer(*issuer, store{users, *loggedOut}, nil, false)
	log.Fatal(http.ListenAndServe(*address, provider)) //nolint:gosec // for tests
}
