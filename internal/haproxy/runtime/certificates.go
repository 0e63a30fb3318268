package runtime

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"gateway/internal/haproxy/ir"
)

const (
	// checked is the name of a certificate in HAProxy while it is checked, and of the server that gets it.
	checked = "checked"
	// notInUse is HAProxy's answer about a certificate that it has not loaded.
	notInUse = "Can't replace a certificate which is not referenced by the configuration!"
	// unfinished begins its answer while another certificate was handed over and not committed. The other's name follows,
	// with a "'" at its end.
	unfinished = "The ongoing transaction is about '"
	// ambiguous is in its answer about a file that a list has several times.
	ambiguous = " in several entries"
	// inUse, deleted and unknown are in its answers about a certificate that it is to forget.
	inUse   = "' in use"
	deleted = "deleted!"
	unknown = "doesn't exist!"
	// done ends its answer when it did what it was told.
	done = "Success!"
)

// ErrCertificateInUse is returned if HAProxy uses a certificate.
var ErrCertificateInUse = errors.New("HAProxy uses the certificate")

var errNotInUse = errors.New("HAProxy does not have the certificate")

// RefusedCertificateError is HAProxy's answer about a certificate that it cannot use.
type RefusedCertificateError struct {
	// Reason is HAProxy's message.
	Reason string
}

func (e *RefusedCertificateError) Error() string {
	return "HAProxy refuses the certificate: " + e.Reason
}

// CheckCertificate returns nil if HAProxy can use a certificate, a PEM with its key, and a RefusedCertificateError if
// it cannot. No client gets the certificate: a server of ir.CheckBackend uses it, and is deleted.
func (w *Worker) CheckCertificate(ctx context.Context, pem []byte) error {
	if len(pem) > maxPayload {
		return &RefusedCertificateError{Reason: fmt.Sprintf("with its key it has %d bytes: HAProxy takes %d", len(pem), maxPayload)}
	}
	before, err := w.Process(ctx)
	if err != nil {
		return err
	}
	if err := w.forgetChecked(ctx); err != nil {
		return err
	}
	err = w.check(ctx, pem)
	if forgetErr := w.forgetChecked(ctx); forgetErr != nil {
		return forgetErr
	}
	if err != nil {
		// Half of the commands may have met one worker, and half the next one.
		if after, afterErr := w.Process(ctx); afterErr != nil || after != before {
			return fmt.Errorf("HAProxy was reloaded meanwhile: %w", errors.Join(errors.New(err.Error()), afterErr))
		}
	}
	return err
}

func (w *Worker) check(ctx context.Context, pem []byte) error {
	if _, err := w.exchange(ctx, "new ssl cert "+checked+"\n"); err != nil {
		return fmt.Errorf("failed to have a certificate checked: %w", err)
	}
	if err := w.replaceCertificate(ctx, checked, pem); err != nil {
		return err
	}
	reply, err := w.exchange(ctx, "add server "+ir.CheckBackend+"/"+checked+" 127.0.0.1:1 ssl verify none crt "+checked+"\n")
	if err != nil {
		return fmt.Errorf("failed to have a certificate checked: %w", err)
	}
	if reply != serverAdded {
		return refusal(reply, checked)
	}
	return nil
}

// forgetChecked removes leftovers of a check.
func (w *Worker) forgetChecked(ctx context.Context) error {
	for _, command := range []string{"del server " + ir.CheckBackend + "/" + checked, "abort ssl cert " + checked, "del ssl cert " + checked} {
		if _, err := w.exchange(ctx, command+"\n"); err != nil {
			return fmt.Errorf("failed to forget a certificate: %w", err)
		}
	}
	return nil
}

// ReplaceCertificate makes HAProxy use a certificate in place of a file's, wherever it uses that file; file is a path.
// A file that is new to HAProxy can be added to lists from then on. It returns a RefusedCertificateError, and changes
// nothing, if HAProxy cannot use the certificate.
func (w *Worker) ReplaceCertificate(ctx context.Context, file string, pem []byte) error {
	err := w.replaceCertificate(ctx, file, pem)
	if !errors.Is(err, errNotInUse) {
		return err
	}
	if _, err := w.exchange(ctx, "new ssl cert "+file+"\n"); err != nil {
		return fmt.Errorf("failed to hand a certificate over: %w", err)
	}
	return w.replaceCertificate(ctx, file, pem)
}

// ForgetCertificate makes HAProxy forget the certificate of a file, a path. ErrCertificateInUse says that it uses it.
func (w *Worker) ForgetCertificate(ctx context.Context, file string) error {
	reply, err := w.exchange(ctx, "del ssl cert "+file+"\n")
	switch {
	case err != nil:
		return fmt.Errorf("failed to forget a certificate: %w", err)
	case strings.Contains(reply, inUse):
		return ErrCertificateInUse
	case !strings.Contains(reply, deleted) && !strings.Contains(reply, unknown):
		return fmt.Errorf("failed to forget a certificate: %s", reply)
	}
	return nil
}

// AddCertificates adds lines to a list of certificates, a path. HAProxy must have the certificates.
func (w *Worker) AddCertificates(ctx context.Context, list string, lines []ir.CertificateLine) error {
	for _, line := range lines {
		reply, err := w.exchange(ctx, "add ssl crt-list "+list+" <<\n"+line.String()+"\n\n")
		if err == nil && !strings.HasSuffix(reply, done) {
			err = errors.New(strings.ReplaceAll(reply, "\n", "; "))
		}
		if err != nil {
			return fmt.Errorf("failed to add a certificate to a list: %w", err)
		}
	}
	return nil
}

// RemoveCertificates removes lines from a list of certificates, a path.
func (w *Worker) RemoveCertificates(ctx context.Context, list string, lines []ir.CertificateLine) error {
	var shown map[string][]string
	for _, line := range lines {
		reply, err := w.exchange(ctx, "del ssl crt-list "+list+" "+line.File+"\n")
		if err == nil && strings.Contains(reply, ambiguous) {
			if shown == nil {
				shown, err = w.entries(ctx, list)
			}
			if err == nil {
				reply, err = w.removeEntry(ctx, list, shown, line.String())
			}
		}
		if err == nil && !strings.HasPrefix(reply, "Entry ") {
			err = errors.New(strings.ReplaceAll(reply, "\n", "; "))
		}
		if err != nil {
			return fmt.Errorf("failed to remove a certificate from a list: %w", err)
		}
	}
	return nil
}

// removeEntry removes the first of the entries for a line.
func (w *Worker) removeEntry(ctx context.Context, list string, shown map[string][]string, line string) (string, error) {
	entries := shown[line]
	if len(entries) == 0 {
		return "", fmt.Errorf("it is not there: %s", line)
	}
	shown[line] = entries[1:]
	return w.exchange(ctx, "del ssl crt-list "+list+" "+entries[0]+"\n")
}

// entries returns the entries of a list, FILE:NUMBER, by their lines.
func (w *Worker) entries(ctx context.Context, list string) (map[string][]string, error) {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	command := "show ssl crt-list -n " + list + "\n"
	unlock, err := w.exclude(ctx, command)
	if err != nil {
		return nil, err
	}
	defer unlock()
	var shown map[string][]string
	err = converse(ctx, w.socket, command, func(answer io.Reader) (err error) {
		shown, err = readEntries(answer)
		return err
	})
	return shown, err
}

// readEntries reads the answer to "show ssl crt-list -n": one "FILE:NUMBER [OPTIONS] NAMES" a line.
func readEntries(answer io.Reader) (map[string][]string, error) {
	shown, rows := map[string][]string{}, bufio.NewScanner(io.LimitReader(answer, maxRows))
	rows.Buffer(nil, maxPayload)
	for rows.Scan() {
		entry, rest, _ := strings.Cut(strings.TrimSpace(rows.Text()), " ")
		if i := strings.LastIndexByte(entry, ':'); i > 0 && isWord(entry) {
			line := strings.TrimSpace(entry[:i] + " " + rest)
			shown[line] = append(shown[line], entry)
		}
	}
	return shown, rows.Err()
}

// padded returns a command with a PEM. Long ones get a comment, so that all of them end in the middle of one of
// HAProxy's buffers: HAProxy 3.4.7 was seen not to answer some. Its buffers are multiples of 16 KiB.
func padded(command, pem string) string {
	const buffer = 16 << 10
	size := len(command) + len(pem)
	if size <= maxCommand {
		return command + pem
	}
	line := strings.Repeat("#", 63) + "\n"
	return command + strings.Repeat(line, (buffer+buffer/2-size%buffer)%buffer/len(line)) + pem
}

func (w *Worker) replaceCertificate(ctx context.Context, file string, pem []byte) error {
	if !isWord(file) {
		return fmt.Errorf("%q cannot be the file of a certificate", file)
	}
	// An empty line would end the PEM.
	var lines []byte
	for line := range bytes.Lines(pem) {
		if len(bytes.TrimSpace(line)) > 0 {
			lines = append(lines, line...)
		}
	}
	set := padded("set ssl cert "+file+" <<\n", string(lines)) + "\n"
	reply, err := w.exchange(ctx, set)
	if other, ok := strings.CutPrefix(reply, unfinished); ok && err == nil {
		// The program that handed that over was killed: no other program hands certificates over.
		other, _, _ = strings.Cut(other, "'")
		if _, err = w.exchange(ctx, "abort ssl cert "+other+"\n"); err == nil {
			reply, err = w.exchange(ctx, set)
		}
	}
	if err != nil {
		return fmt.Errorf("failed to hand a certificate over: %w", err)
	}
	switch {
	case strings.HasPrefix(reply, notInUse):
		return errNotInUse
	case !strings.HasPrefix(reply, "Transaction "):
		return refusal(reply, file)
	}
	if reply, err = w.exchange(ctx, "commit ssl cert "+file+"\n"); err != nil {
		return fmt.Errorf("failed to have a certificate used: %w", err)
	}
	if strings.HasSuffix(reply, done) {
		return nil
	}
	// Some refusals leave the certificate where the next one would be added to it.
	if _, err := w.exchange(ctx, "abort ssl cert "+file+"\n"); err != nil {
		return fmt.Errorf("failed to forget a certificate: %w", err)
	}
	return refusal(reply, file)
}

// refusal is HAProxy's message about a certificate, without the file's name and the parts that are always the same.
func refusal(reply, file string) error {
	var reasons []string
	for line := range strings.Lines(reply) {
		line = strings.TrimSpace(strings.ReplaceAll(line, " '"+file+"'", ""))
		if line != "" && line != "Failed!" && !strings.HasPrefix(line, "Committing ") && !strings.HasPrefix(line, "Can't ") {
			reasons = append(reasons, strings.TrimSuffix(line, "."))
		}
	}
	return &RefusedCertificateError{Reason: strings.Join(reasons, "; ")}
}
