package dashboard

import (
	"bytes"
	"context"
	"embed"
	"html/template"
	"net/http"
	"sync"
	"time"
)

const (
	// fresh is how long a snapshot is shown to whoever asks.
	fresh = 3 * time.Second
	// observeTimeout bounds reading the cluster.
	observeTimeout = 30 * time.Second
)

//go:embed assets
var assets embed.FS

var pages = template.Must(template.ParseFS(assets, "assets/*.html"))

// board is the page, and what it shows.
type board struct {
	read  func(ctx context.Context) (*snapshot, error)
	title string

	mu    sync.Mutex
	seen  *snapshot
	meter meter
	// asked is when the cluster was read last.
	asked time.Time
	// failure is why there is nothing newer; "" if it is new.
	failure string
}

// newBoard returns a board of what read returns. The title says of what.
func newBoard(read func(ctx context.Context) (*snapshot, error), title string) *board {
	return &board{read: read, title: title}
}

// add shows a snapshot.
func (b *board) add(seen *snapshot) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen, b.asked, b.failure = seen, time.Now(), ""
	b.meter.add(seen)
}

// view returns what is to be shown. It reads the cluster if what it has is not new, for all who ask meanwhile.
func (b *board) view() *view {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.asked) > fresh {
		// The client that asked may go away: others wait for the answer, too.
		ctx, cancel := context.WithTimeout(context.Background(), observeTimeout)
		defer cancel()
		seen, err := b.read(ctx)
		b.asked = time.Now()
		if err != nil {
			b.failure = err.Error()
		} else {
			b.seen, b.failure = seen, ""
			b.meter.add(seen)
		}
	}
	return newView(b.title, b.seen, &b.meter, b.failure)
}

// handler serves the page, the part of it that changes, and what the page needs.
func (b *board) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", b.serve("page.html"))
	mux.HandleFunc("/board", b.serve("board.html"))
	for _, name := range []string{"style.css", "page.js", "icon.svg"} {
		mux.HandleFunc("/"+name, func(writer http.ResponseWriter, request *http.Request) {
			http.ServeFileFS(writer, request, assets, "assets/"+name)
		})
	}
	return mux
}

func (b *board) serve(name string) http.HandlerFunc {
	return func(writer http.ResponseWriter, _ *http.Request) {
		var page bytes.Buffer
		if err := pages.ExecuteTemplate(&page, name, b.view()); err != nil {
			http.Error(writer, err.Error(), http.StatusInternalServerError)
			return
		}
		writer.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = page.WriteTo(writer)
	}
}
