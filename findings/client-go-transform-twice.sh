#!/usr/bin/env bash
# client-go v0.37.2: an informer's transform is called twice for the objects that a streaming list begins with, and once
# for every later event.
#
# Expected by most: once for each object, as with LIST. It is, while the API server cannot stream lists (etcd 3.4), so
# that tests on such a server do not show it.
# Seen: a transform that drops a label and decides by it loses what it kept the first time.
#
# The transforms of our caches do nothing to what they have returned.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'END'
package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

func pod(name, version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, ResourceVersion: version}}
}

// count runs an informer on a server that has the pod "first", and gets the pod "later". It returns how often each was
// transformed.
func count(streams bool) map[string]int {
	events := watch.NewFakeWithChanSize(8, false)
	server := &cache.ListWatch{
		ListFunc: func(metav1.ListOptions) (runtime.Object, error) {
			return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "2"}, Items: []corev1.Pod{*pod("first", "1")}}, nil
		},
		WatchFunc: func(options metav1.ListOptions) (watch.Interface, error) {
			if options.SendInitialEvents != nil {
				if !streams {
					return nil, fmt.Errorf("a client that streams lists asked a server that does not")
				}
				events.Add(pod("first", "1"))
				end := pod("", "2")
				end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
				events.Action(watch.Bookmark, end)
			}
			events.Add(pod("later", "3"))
			return events, nil
		},
	}
	var source cache.ListerWatcher = server
	if !streams {
		source = cache.ToListWatcherWithWatchListSemantics(server, unsupported{})
	}
	ctx, stop := context.WithCancel(context.Background())
	calls, seen := map[string]int{}, make(chan bool)
	informer := cache.NewSharedIndexInformer(source, &corev1.Pod{}, 0, nil)
	_ = informer.SetTransform(func(object any) (any, error) {
		calls[object.(*corev1.Pod).Name]++ // one goroutine at a time
		return object, nil
	})
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
		if object.(*corev1.Pod).Name == "later" {
			close(seen)
		}
	}})
	done := make(chan bool)
	go func() { informer.Run(ctx.Done()); close(done) }()
	<-seen
	stop()
	<-done
	return calls
}

// unsupported is a client that says that its server does not stream lists.
type unsupported struct{}

func (unsupported) IsWatchListSemanticsUnSupported() bool { return true }

func main() {
	streamed, listed := count(true), count(false)
	fmt.Printf("streamed: first %d, later %d; listed: first %d, later %d\n", streamed["first"], streamed["later"], listed["first"], listed["later"])
}
END
export GOWORK=off GOFLAGS=-mod=mod
go mod init finding 2>/dev/null
go get k8s.io/client-go@v0.37.2 k8s.io/api@v0.37.2 k8s.io/apimachinery@v0.37.2 2>/dev/null
got=$(go run .)
want="streamed: first 2, later 1; listed: first 1, later 1"
[[ $got == "$want" ]] || {
    echo "changed: got $got, and it was $want" >&2
    exit 1
}
echo "as seen: $got"
