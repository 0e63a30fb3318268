package conformance

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// podLogs are in place of the kubelets' logs: the API server would ask those.
type podLogs struct {
	mu sync.Mutex
	// byPath are the logs by the path of the request for them.
	byPath map[string]*podLog
}

// podLog is what a pod has written, and when.
type podLog struct {
	mu    sync.Mutex
	times []time.Time
	texts [][]byte
}

// add returns the log of a new pod.
func (l *podLogs) add(namespace, name string) *podLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byPath == nil {
		l.byPath = map[string]*podLog{}
	}
	log := &podLog{}
	l.byPath["/api/v1/namespaces/"+namespace+"/pods/"+name+"/log"] = log
	return log
}

func (l *podLog) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.times, l.texts = append(l.times, time.Now()), append(l.texts, bytes.Clone(text))
	return len(text), nil
}

func (l *podLog) since(start time.Time) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, written := range l.times {
		if !written.Before(start) {
			return bytes.Join(l.texts[i:], nil)
		}
	}
	return nil
}

// config returns the configuration of clients that read these logs, and ask the API server for everything else.
func (l *podLogs) config(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			l.mu.Lock()
			log := l.byPath[request.URL.Path]
			l.mu.Unlock()
			if log == nil {
				return next.RoundTrip(request)
			}
			since, err := time.Parse(time.RFC3339, request.URL.Query().Get("sinceTime"))
			body := io.NopCloser(bytes.NewReader(log.since(since)))
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: body, Request: request}, err
		})
	})
	return config
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
