package testenv

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"
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
	file, err := os.Open(s.auditLog())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var writes []Write
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event struct {
			Verb                     string
			User                     struct{ Username string }
			ObjectRef                struct{ Resource, Subresource, Namespace, Name string }
			ResponseStatus           struct{ Code int }
			RequestReceivedTimestamp time.Time
		}
		// The last line may still be being written.
		if json.Unmarshal(lines.Bytes(), &event) != nil {
			continue
		}
		ref := event.ObjectRef
		if event.User.Username != user || ref.Resource == "leases" || event.RequestReceivedTimestamp.Before(since) {
			continue
		}
		if ref.Subresource != "" {
			ref.Resource += "/" + ref.Subresource
		}
		writes = append(writes, Write{user, event.Verb, ref.Resource, ref.Namespace, ref.Name,
			event.ResponseStatus.Code, event.RequestReceivedTimestamp})
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return writes
}
