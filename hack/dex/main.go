// Command dex is dex, an OpenID provider, for tests: it keeps everything in memory, and each browser is the same user
// at once. It is a program of its own because dex's has a module that no proxy has.
package main

import (
	"context"
	"flag"
	"log"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/dexidp/dex/server"
	"github.com/dexidp/dex/server/authflow"
	"github.com/dexidp/dex/server/signer"
	"github.com/dexidp/dex/server/tokens"
	"github.com/dexidp/dex/storage"
	"github.com/dexidp/dex/storage/memory"
)

// store is dex's storage in memory, which waits for itself when a refresh token is used: what changes the token reads
// something else.
type store struct {
	storage.Storage

	mu sync.Mutex
}

// UpdateRefreshToken has the token changed while the storage is free.
func (s *store) UpdateRefreshToken(ctx context.Context, id string, change func(storage.RefreshToken) (storage.RefreshToken, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, err := s.GetRefresh(ctx, id)
	if err != nil {
		return err
	}
	changed, err := change(old)
	if err != nil {
		return err
	}
	return s.Storage.UpdateRefreshToken(ctx, id, func(storage.RefreshToken) (storage.RefreshToken, error) { return changed, nil })
}

func main() {
	address := flag.String("address", "", "`address` to listen at")
	issuer := flag.String("issuer", "", "`URL` of the provider")
	redirect := flag.String("redirect", "", "`URL` that users are sent back to")
	valid := flag.Duration("valid", time.Hour, "how long ID tokens are valid")
	flag.Parse()
	ctx, logger := context.Background(), slog.New(slog.NewTextHandler(os.Stderr, nil))
	store := &store{Storage: memory.New(logger)}
	for _, err := range []error{
		store.CreateClient(ctx, storage.Client{ID: "shop", Secret: os.Getenv("CLIENT_SECRET"), RedirectURIs: []string{*redirect}, Name: "shop"}),
		store.CreateConnector(ctx, storage.Connector{ID: "mock", Type: "mockCallback", Name: "mock"}),
	} {
		if err != nil {
			log.Fatal(err)
		}
	}
	keys, err := (&signer.LocalConfig{KeysRotationPeriod: "6h"}).Open(ctx, store, *valid, time.Now, logger)
	if err != nil {
		log.Fatal(err)
	}
	provider, err := server.NewServer(ctx, server.Config{
		Issuer: *issuer, Storage: store, SkipApprovalScreen: true, IDTokensValidFor: *valid, Logger: logger, Signer: keys,
		RefreshTokenPolicy: tokens.NewRefreshStrategy(true, 0, 0, 0, nil), PKCE: authflow.PKCEConfig{Enforce: true, CodeChallengeMethodsSupported: []string{"S256"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe(*address, provider)) //nolint:gosec // for tests
}
