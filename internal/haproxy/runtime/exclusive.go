package runtime

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"
)

// lockedPause is the time between two tries to be the only one. Commands take less than a millisecond.
const lockedPause = time.Millisecond

// Exclusively lets no other worker of the same directory, which may be another program's, send a command on
// certificates at the same time. HAProxy refuses one while another one is at work, and HAProxy 3.4.7 takes none any
// more once it has refused a commit. A directory that does not exist is nobody else's.
func (w *Worker) Exclusively(dir string) *Worker {
	w.dir = dir
	return w
}

// exchange sends a command and returns the whole answer.
func (w *Worker) exchange(ctx context.Context, command string) (string, error) {
	unlock, err := w.exclude(ctx, command)
	if err != nil {
		return "", err
	}
	defer unlock()
	return exchange(ctx, w.socket, command)
}

// exclude returns when no other program sends a command on certificates, if this is one, until unlock is called.
func (w *Worker) exclude(ctx context.Context, command string) (unlock func(), err error) {
	line, _, _ := strings.Cut(command, "\n")
	if w.dir == "" || !strings.Contains(line, " ssl ") {
		return func() {}, nil
	}
	dir, err := os.Open(w.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	for err == nil {
		var isMine bool
		if isMine, err = tryLock(dir); isMine {
			return func() { _ = dir.Close() }, nil
		}
		select {
		case <-ctx.Done():
			err = errors.Join(err, context.Cause(ctx))
		case <-time.After(lockedPause):
		}
	}
	_ = dir.Close()
	return nil, fmt.Errorf("failed to be the only one that commands HAProxy: %w", err)
}
