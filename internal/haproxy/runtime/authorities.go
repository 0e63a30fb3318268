package runtime

import (
	"bytes"
	"context"
	"fmt"
	"strings"
)

// AddAuthority adds a file, a path, with CA certificates and lists of revoked ones. Lines of lists of certificates, and
// servers, can name it from then on.
func (w *Worker) AddAuthority(ctx context.Context, file string, pem []byte) error {
	if !isWord(file) {
		return fmt.Errorf("failed to add CA certificates: %q cannot be their file", file)
	}
	// A file that was left behind halfway is begun anew.
	if _, err := w.exchange(ctx, "abort ssl ca-file "+file+"\n"); err != nil {
		return fmt.Errorf("failed to add CA certificates: %w", err)
	}
	if _, err := w.exchange(ctx, "new ssl ca-file "+file+"\n"); err != nil {
		return fmt.Errorf("failed to add CA certificates: %w", err)
	}
	command := "set ssl ca-file "
	for _, part := range pemParts(pem, maxPayload) {
		reply, err := w.exchange(ctx, padded(command+file+" <<\n", part)+"\n")
		if err == nil && !strings.HasPrefix(reply, "transaction ") {
			err = fmt.Errorf("%s", firstLine(reply))
		}
		if err != nil {
			return fmt.Errorf("failed to add CA certificates: %w", err)
		}
		command = "add ssl ca-file "
	}
	reply, err := w.exchange(ctx, "commit ssl ca-file "+file+"\n")
	if err == nil && !strings.HasSuffix(reply, done) {
		err = fmt.Errorf("%s", strings.ReplaceAll(reply, "\n", "; "))
	}
	if err != nil {
		return fmt.Errorf("failed to add CA certificates: %w", err)
	}
	return nil
}

// pemParts splits a PEM between its blocks into parts of at most so many bytes, without empty lines.
func pemParts(pem []byte, most int) []string {
	var parts []string
	var part, block strings.Builder
	for line := range bytes.Lines(pem) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		block.Write(bytes.TrimRight(line, "\r\n"))
		block.WriteByte('\n')
		if !bytes.HasPrefix(line, []byte("-----END ")) {
			continue
		}
		if part.Len() > 0 && part.Len()+block.Len() > most {
			parts = append(parts, part.String())
			part.Reset()
		}
		part.WriteString(block.String())
		block.Reset()
	}
	return append(parts, part.String()+block.String())
}
