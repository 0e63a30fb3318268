package faultproxy

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fault answers a request in place of next, which is the API server.
type Fault func(w http.ResponseWriter, r *http.Request, next http.Handler)

// Match reports whether a fault is about a request.
type Match func(*http.Request) bool

// All are all requests.
func All(*http.Request) bool { return true }

// Writes are those that change something, but for leases.
func Writes(r *http.Request) bool { return describe(r).Write }

// SyncWrites reports whether a request is a write of a sync: any write but an event, which may come at any time.
func SyncWrites(r *http.Request) bool { return Writes(r) && !strings.Contains(r.URL.Path, "/events") }

// Watches are those that go on.
func Watches(r *http.Request) bool { return describe(r).Watch }

// Slow adds a time to every request.
func Slow(by time.Duration) Fault {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		select {
		case <-time.After(by):
			next.ServeHTTP(w, r)
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	}
}

// Answer answers requests with a failure; retryAfter is in seconds, 0 says nothing about that.
func Answer(match Match, code int, reason metav1.StatusReason, retryAfter int) Fault {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !match(r) {
			next.ServeHTTP(w, r)
			return
		}
		if retryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(failure(code, reason)) // whoever asked may be gone
	}
}

func failure(code int, reason metav1.StatusReason) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Message: "a test wants it so", Reason: reason, Code: int32(code),
	}
}

// CutWatches ends every watch after a time.
func CutWatches(after time.Duration) Fault {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if Watches(r) {
			ctx, cancel := context.WithTimeout(r.Context(), after)
			defer cancel()
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(w, r)
	}
}

// Gone ends every watch after a time, and tells those that want to go on from there that it was forgotten, with the
// status of the answer or as an event. Watches that begin with what there is are let through, as by the API server.
func Gone(after time.Duration, event bool) Fault {
	cut, refuse := CutWatches(after), Answer(All, http.StatusGone, metav1.StatusReasonExpired, 0)
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		switch {
		case !Watches(r) || r.URL.Query().Has("sendInitialEvents"):
			cut(w, r, next)
		case event:
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]any{ // whoever asked may be gone
				"type": "ERROR", "object": failure(http.StatusGone, metav1.StatusReasonExpired),
			})
		default:
			refuse(w, r, next)
		}
	}
}

// AtNth calls do at the nth request that matches, from 1, before or after it reaches the API server. That one gets no
// answer, nor does any later one.
func AtNth(match Match, n int64, before bool, do func()) Fault {
	var matched atomic.Int64
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if match(r) {
			number := matched.Add(1)
			if number == n {
				if !before {
					next.ServeHTTP(httptest.NewRecorder(), r.WithContext(context.WithoutCancel(r.Context())))
				}
				do()
			}
			if number >= n {
				panic(http.ErrAbortHandler)
			}
		}
		next.ServeHTTP(w, r)
	}
}

// Hold keeps the first request that matches from the API server. Arrived is closed when it is there; release lets it go
// on, whether its sender still lives or not, and returns the answer's code.
func Hold(match Match) (fault Fault, arrived <-chan struct{}, release func() int) {
	var first sync.Once
	there, released, code := make(chan struct{}), make(chan struct{}), make(chan int, 1)
	fault = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		held := false
		if match(r) {
			first.Do(func() { held = true })
		}
		if !held {
			next.ServeHTTP(w, r)
			return
		}
		// It is read to its end before its sender can go away.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		close(there)
		<-released
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r.WithContext(context.WithoutCancel(r.Context())))
		code <- answer.Code
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes()) // whoever asked may be gone
	}
	return fault, there, func() int {
		close(released)
		return <-code
	}
}
