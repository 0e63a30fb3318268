// Program image makes a container image of files of this machine, as an archive
// that `docker load` and `ctr images import` accept, without Docker and without
// a base image.
//
// The image is one layer with the given files, what a program expects to find
// in /etc/passwd and /etc/group, and nothing else. The same files make the same
// image, byte for byte.
package main

import (
	"compress/gzip"
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

const usage = `usage: image (-o ARCHIVE | -push) -t NAME[:TAG] [OPTION...] SOURCE:PATH...

Each file SOURCE of this machine is in the image at the absolute PATH, with its
permission bits. For example:

  image -o gateway.tar -t gateway:dev -user 65532 -entrypoint /gateway \
      bin/gateway:/gateway bin/gateway-agent:/gateway-agent

  image -o haproxy.tar -t gateway-haproxy:dev -libs -user 99 -stop-signal SIGUSR1 \
      -entrypoint haproxy /usr/sbin/haproxy:/usr/local/sbin/haproxy

Options:
`

func main() {
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	output := flag.String("o", "", "write the archive to this `file`")
	tag := flag.String("t", "", "`name` of the image")
	entrypoint := flag.String("entrypoint", "", "the program to run: a `command` and its arguments, separated by spaces")
	cmd := flag.String("cmd", "", "the default `arguments` of the entrypoint, separated by spaces")
	user := flag.Uint("user", 0, "numeric `id` of the user and group to run as")
	stopSignal := flag.String("stop-signal", "", "the `signal` that asks the program to stop")
	oci := flag.String("oci", "", "write an OCI image layout with an image for each of these `architectures`, separated by commas, "+
		"which {arch} in SOURCE stands for")
	push := flag.Bool("push", false, "push the image to the registry that its name begins with, with the credentials of docker login, in place of an archive")
	signature := flag.String("signature", "", "write the signature in this `file` as an OCI image layout, in cosign's format; SOURCE alone is what was signed")
	libs := flag.Bool("libs", false, "add the shared libraries the files are linked to, where they are on this machine")
	flag.Parse()

	if (*output == "") != *push || *tag == "" || flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	config := v1.Config{
		Entrypoint: strings.Fields(*entrypoint),
		Cmd:        strings.Fields(*cmd),
		User:       fmt.Sprint(*user),
		StopSignal: *stopSignal,
		WorkingDir: "/",
		Env:        []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
	}
	write := func() error { return writeImage(*output, *tag, config, *user, flag.Args(), *libs) }
	if *push {
		write = func() error { return pushImage(*tag, config, *user, flag.Args(), *libs) }
	}
	if *oci != "" {
		write = func() error { return writeLayout(*output, *tag, config, *user, flag.Args(), strings.Split(*oci, ",")) }
	}
	if *signature != "" {
		write = func() error { return writeSignature(*output, *tag, flag.Arg(0), *signature) }
	}
	if err := write(); err != nil {
		fmt.Fprintf(os.Stderr, "image: %v\n", err)
		os.Exit(1)
	}
}

// writeImage writes the archive, whole or not at all.
func writeImage(output, tag string, config v1.Config, user uint, args []string, libs bool) error {
	ref, err := name.NewTag(tag)
	if err != nil {
		return fmt.Errorf("failed to parse image name: %w", err)
	}
	files, err := collect(args, libs)
	if err != nil {
		return err
	}
	// The archive never leaves this machine: packing it would only cost time.
	img, err := build(files, user, config, runtime.GOARCH, gzip.NoCompression)
	if err != nil {
		return err
	}
	return whole(output, func(_, unfinished string) error { return tarball.WriteToFile(unfinished, ref, img) })
}

// pushImage pushes the image of this machine's architecture.
func pushImage(tag string, config v1.Config, user uint, args []string, libs bool) error {
	ref, err := name.NewTag(tag)
	if err != nil {
		return fmt.Errorf("failed to parse image name: %w", err)
	}
	files, err := collect(args, libs)
	if err != nil {
		return err
	}
	img, err := build(files, user, config, runtime.GOARCH, gzip.DefaultCompression)
	if err != nil {
		return err
	}
	if err := remote.Write(ref, img, remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("failed to push %s: %w", tag, err)
	}
	return nil
}

// whole lets write make a file, with room for more beside it, and puts it where output says once it is whole.
func whole(output string, write func(dir, unfinished string) error) error {
	dir, err := os.MkdirTemp(filepath.Dir(output), ".image-")
	if err != nil {
		return fmt.Errorf("failed to write archive: %w", err)
	}
	defer os.RemoveAll(dir)
	unfinished := filepath.Join(dir, "archive")
	if err := write(dir, unfinished); err != nil {
		return fmt.Errorf("failed to write archive: %w", err)
	}
	if err := os.Rename(unfinished, output); err != nil {
		return fmt.Errorf("failed to write archive: %w", err)
	}
	return nil
}

// collect turns SOURCE:PATH arguments into a map from the path in the image to
// the file on this machine, with the libraries of each if asked.
func collect(args []string, libs bool) (map[string]string, error) {
	files := map[string]string{}
	for _, arg := range args {
		source, target, ok := strings.Cut(arg, ":")
		if !ok || source == "" || !path.IsAbs(target) {
			return nil, fmt.Errorf("failed to parse %q: want SOURCE:PATH with an absolute PATH", arg)
		}
		files[path.Clean(target)] = source
		if !libs {
			continue
		}
		linked, err := libraries(source)
		if err != nil {
			return nil, err
		}
		for _, library := range linked {
			files[library] = library
		}
	}
	return files, nil
}
