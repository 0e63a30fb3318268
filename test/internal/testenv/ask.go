package testenv

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// Get sends a request, and returns the status and the body of the answer.
func Get(ctx context.Context, client *http.Client, url string) (status int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	content, err := io.ReadAll(response.Body)
	return response.StatusCode, string(content), err
}

// Ask asks a program at its health address, and returns an error unless the status is 200.
func Ask(ctx context.Context, address, path string) (string, error) {
	status, body, err := Get(ctx, http.DefaultClient, "http://"+address+path)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d: %s", status, body)
	}
	return body, err
}
