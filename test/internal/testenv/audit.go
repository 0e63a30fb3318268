package testenv

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"gateway/internal/must"
)

// Write is a request that wanted to change something.
type Write struct {
	User, Verb, Resource, Namespace, Name string
	Code                                  int
	At                                    time.Time
}

func (w Write) String() string {
	return fmt.Sprintf("%s %s %s/%s (%d)", w.Verb, w.Resource, w.Namespace, w.Name, w.Code)
}

// Writes returns the write requests of the user since then that the server has answered, but for the leader's lease.
func (s *Server) Writes(t testing.TB, user string, since time.Time) []Write {
	t.Helper()
	var writes []Write
	s.audited(t, user, func(e *event) {
		ref := e.ObjectRef
		if e.Verb == "list" || e.Verb == "watch" || ref.Resource == "leases" || e.RequestReceivedTimestamp.Before(since) {
			return
		}
		if ref.Subresource != "" {
			ref.Resource += "/" + ref.Subresource
		}
		writes = append(writes, Write{user, e.Verb, ref.Resource, ref.Namespace, ref.Name,
			e.ResponseStatus.Code, e.RequestReceivedTimestamp})
	})
	return writes
}

// Informers returns the resources for which the user has informers. Each is true if they got all objects by
// watch-lists. An informer that does not get a watch-list, though it asks for one, lists the objects in pages, from the
// server's cache. One that is refused got nothing: the API server knows a new permission a moment later.
func (s *Server) Informers(t testing.TB, user string) map[string]bool {
	t.Helper()
	asked, listed := map[string]bool{}, map[string]bool{}
	s.audited(t, user, func(e *event) {
		switch resource := e.ObjectRef.Resource; {
		case e.Verb == "list" && e.ResponseStatus.Code == http.StatusOK && strings.Contains(e.RequestURI, "limit=500&resourceVersion=0"):
			listed[resource] = true
		case e.Verb == "watch":
			asked[resource] = asked[resource] || strings.Contains(e.RequestURI, "sendInitialEvents=true")
		}
	})
	for resource := range asked {
		asked[resource] = asked[resource] && !listed[resource]
	}
	return asked
}

// event is a line of the audit log.
type event struct {
	Verb, RequestURI         string
	User                     struct{ Username string }
	ObjectRef                struct{ Resource, Subresource, Namespace, Name string }
	ResponseStatus           struct{ Code int }
	RequestReceivedTimestamp time.Time
}

// audited calls do for each event of the user.
func (s *Server) audited(t testing.TB, user string, do func(*event)) {
	t.Helper()
	file := must.Get(os.Open(s.auditLog()))(t)
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e event
		// The last line may still be being written.
		if json.Unmarshal(lines.Bytes(), &e) == nil && e.User.Username == user {
			do(&e)
		}
	}
	must.Do(t, lines.Err())
}
