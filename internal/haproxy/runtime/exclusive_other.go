//go:build !unix

package runtime

import "os"

// tryLock locks nothing: HAProxy does not run here.
func tryLock(*os.File) (bool, error) { return true, nil }
