package main

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// libraries returns the paths of the shared libraries program needs to start,
// directly or through others, and of the loader; nothing for a static program.
// They are those the loader of this machine would choose.
func libraries(program string) ([]string, error) {
	// ldd takes a bare name for a file only if it has a slash.
	absolute, err := filepath.Abs(program)
	if err != nil {
		return nil, fmt.Errorf("failed to find libraries of %s: %w", program, err)
	}
	output, err := exec.Command("ldd", absolute).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) && strings.Contains(string(output)+string(exit.Stderr), "not a dynamic executable") {
			return nil, nil
		}
		return nil, fmt.Errorf("failed to find libraries of %s: %w", program, err)
	}
	return parseLdd(string(output))
}

// parseLdd reads what ldd prints, one library a line:
//
//	linux-vdso.so.1 (0x00007fd62f8c7000)                                    of the kernel, no file
//	libssl.so.3 => /lib/x86_64-linux-gnu/libssl.so.3 (0x00007fd62f7d1000)
//	libgone.so.1 => not found
//	/lib64/ld-linux-x86-64.so.2 (0x00007fd62f8c9000)                        the loader
func parseLdd(output string) ([]string, error) {
	var paths []string
	for line := range strings.Lines(output) {
		fields := strings.Fields(line)
		switch {
		case len(fields) >= 3 && fields[1] == "=>" && filepath.IsAbs(fields[2]):
			paths = append(paths, fields[2])
		case len(fields) >= 3 && fields[1] == "=>":
			return nil, fmt.Errorf("failed to find library %s on this machine", fields[0])
		case len(fields) > 0 && filepath.IsAbs(fields[0]):
			paths = append(paths, fields[0])
		}
	}
	return paths, nil
}
