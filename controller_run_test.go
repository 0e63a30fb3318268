package main

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
	"gateway/internal/operator/options"
	"gateway/internal/operator/status"
	"gateway/internal/proxypod"
)

// expectQueue takes everything out of the Controller's queue.
func expectQueue(t *testing.T, controller *Controller, want []string) {
	t.Helper()
	var got []string
	for controller.queue.Len() > 0 {
		name, _ := controller.queue.Get()
		controller.queue.Done(name)
		got = append(got, name.String())
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// startController runs a Controller with live informers on the two fakes, in a bubble of synctest. What the returned
// channel closes is the return of Run.
func startController(ctx context.Context, t *testing.T, kube *kubefake.Clientset, objects ...runtime.Object) <-chan struct{} {
	t.Helper()
	_, gatewayClient := newClients(objects...)
	controller := must.Get(NewController(kube, gatewayClient, caches(kube, gatewayClient, options.Options{}), record.NewFakeRecorder(100), testOptions, time.Now))(t)
	if controller.Ready(nil) == nil {
		t.Error("it is ready before its caches are filled")
	}
	go controller.Fill(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		controller.Run(ctx, 2)
	}()
	time.Sleep(time.Second) // the bubble's clock: the wait for the caches polls
	if err := controller.Ready(nil); ctx.Err() == nil && err != nil {
		t.Errorf("it is not ready: %v", err)
	}
	return stopped
}

func isClosed(channel <-chan struct{}) bool {
	select {
	case <-channel:
		return true
	default:
		return false
	}
}

func TestRunReturnsOnlyAfterItsWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		kube, _ := newClients(newService("api", 8080))
		var applying atomic.Bool
		release := make(chan struct{})
		kube.PrependReactor("patch", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
			applying.Store(true)
			<-release
			return false, nil, nil
		})
		stopped := startController(ctx, t, kube, newGateway())
		if !applying.Load() {
			t.Fatal("no worker has got to the Deployment")
		}

		cancel()
		synctest.Wait()
		if isClosed(stopped) {
			t.Error("Run has returned while a worker is still at work")
		}
		close(release)
		synctest.Wait()
		if !isClosed(stopped) {
			t.Error("Run has not returned after its last worker")
		}
	})
}

// TestCachesAreFilledOneAfterTheOther: the operator's memory at its start rests on that nothing else is listed
// meanwhile.
func TestCachesAreFilledOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		kube, gatewayClient := newClients(newGateway(), newService("api", 8080))
		controller := must.Get(NewController(kube, gatewayClient, caches(kube, gatewayClient, options.Options{}), record.NewFakeRecorder(100), testOptions, time.Now))(t)
		defer controller.queue.ShutDown()
		var listed []string
		list := func(action clienttesting.Action) (bool, runtime.Object, error) {
			for _, informer := range controller.informers[:len(listed)] {
				if !informer.HasSynced() {
					t.Errorf("%s are listed before %s are there", action.GetResource().Resource, listed[len(listed)-1])
				}
			}
			listed = append(listed, action.GetResource().Resource)
			return false, nil, nil
		}
		kube.PrependReactor("list", "*", list)
		gatewayClient.PrependReactor("list", "*", list)
		go controller.Fill(ctx)
		synctest.Wait()
		if err := controller.Ready(nil); err != nil {
			t.Error(err)
		}
		if len(listed) != len(controller.informers) || listed[0] != "deployments" {
			t.Errorf("%d kinds were listed as %v, want deployments first: they are the largest", len(controller.informers), listed)
		}
	})
}

// TestNothingWaitsUntilRun: the queue's metrics of an operator that does not lead, perhaps for months, count no work;
// the one that takes over looks at every Gateway.
func TestNothingWaitsUntilRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		kube, gatewayClient := newClients(newGateway(), newService("api", 8080))
		controller := must.Get(NewController(kube, gatewayClient, caches(kube, gatewayClient, options.Options{}), record.NewFakeRecorder(100), testOptions, time.Now))(t)
		go controller.Fill(ctx)
		synctest.Wait()
		must.Get(kube.CoreV1().Services("web").Update(ctx, newService("api", 8081), metav1.UpdateOptions{}))(t)
		synctest.Wait()
		if waiting := controller.queue.Len(); waiting > 0 {
			t.Errorf("%d Gateways wait though nobody works", waiting)
		}

		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			controller.Run(ctx, 1)
		}()
		time.Sleep(time.Second)
		if _, err := kube.AppsV1().Deployments("web").Get(ctx, "shop-gateway", metav1.GetOptions{}); err != nil {
			t.Errorf("the Gateway that was there before was not looked at: %v", err)
		}
		cancel()
		<-stopped
	})
}

// TestAReportOfVersionsAloneIsNoWork: after each edit of a route, each pod reports a later version. Nothing of a
// Gateway of our own depends on it.
func TestAReportOfVersionsAloneIsNoWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		kube, gatewayClient := newClients(newGateway(), newService("api", 8080))
		controller := must.Get(NewController(kube, gatewayClient, caches(kube, gatewayClient, options.Options{}), record.NewFakeRecorder(100), testOptions, time.Now))(t)
		defer controller.queue.ShutDown()
		controller.working.Store(true)
		go controller.Fill(ctx)
		synctest.Wait()
		report := &appv1.GatewayProxy{ObjectMeta: metav1.ObjectMeta{
			Namespace: "web", Name: "pod", ResourceVersion: "1", Labels: map[string]string{proxypod.LabelGateway: "shop"},
		}}
		proxies := gatewayClient.AppV1().GatewayProxies("web")
		must.Get(proxies.Create(ctx, report, metav1.CreateOptions{}))(t)
		synctest.Wait()
		expectQueue(t, controller, []string{"web/shop"})
		for i, edit := range []func(*appv1.GatewayProxyStatus){
			func(s *appv1.GatewayProxyStatus) { s.ResourceVersion = "100" },
			func(s *appv1.GatewayProxyStatus) { s.Resources = []appv1.ProxiedResource{{Resource: "httproutes"}} },
			func(s *appv1.GatewayProxyStatus) { s.ObservedGeneration = 7 },
			func(s *appv1.GatewayProxyStatus) { s.Problems = []appv1.ProxyProblem{{Message: "it is bad"}} },
		} {
			report = report.DeepCopy()
			report.ResourceVersion = strconv.Itoa(2 + i)
			edit(&report.Status)
			must.Get(proxies.Update(ctx, report, metav1.UpdateOptions{}))(t)
			synctest.Wait()
			var want []string
			if i >= 2 {
				want = []string{"web/shop"}
			}
			expectQueue(t, controller, want)
		}
	})
}

func TestRunTriesAgainAndHeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		kube, _ := newClients(newService("api", 8080))
		failures := 3
		kube.PrependReactor("patch", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
			failures--
			return failures >= 0, nil, errors.New("not now")
		})
		stopped := startController(ctx, t, kube, newGateway())
		time.Sleep(firstRetry * 8)
		synctest.Wait()
		if _, err := kube.AppsV1().Deployments("web").Get(ctx, "shop-gateway", metav1.GetOptions{}); err != nil {
			t.Errorf("after %d failures there is no Deployment: %v", 3, err)
		}

		// A child that is deleted comes back without anyone asking.
		must.Do(t, kube.CoreV1().Services("web").Delete(ctx, "shop-gateway", metav1.DeleteOptions{}))
		synctest.Wait()
		if _, err := kube.CoreV1().Services("web").Get(ctx, "shop-gateway", metav1.GetOptions{}); err != nil {
			t.Errorf("the deleted Service is not back: %v", err)
		}
		cancel()
		<-stopped
	})
}

// TestAPanicStaysWithItsGateway: the work on others goes on, and the one is tried again.
func TestAPanicStaysWithItsGateway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		kube, _ := newClients(newService("api", 8080))
		panics := 0
		kube.PrependReactor("patch", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
			if panics < 3 {
				panics++
				panic("a bug")
			}
			return false, nil, nil
		})
		stopped := startController(ctx, t, kube, newGateway())
		time.Sleep(firstRetry * 16)
		synctest.Wait()
		if _, err := kube.AppsV1().Deployments("web").Get(ctx, "shop-gateway", metav1.GetOptions{}); err != nil || panics != 3 {
			t.Errorf("after %d panics there is no Deployment: %v", panics, err)
		}
		cancel()
		<-stopped
	})
}

// TestEventsOfEachReasonAreTold: client-go drops what is too much, and what comes too often must not have it drop what
// comes once.
func TestEventsOfEachReasonAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := kubefake.NewClientset()
		recorder, stop, err := events(kube)
		must.Do(t, err)
		defer stop()
		often, once := []string{eventSynced, status.ReasonApplyFailed}, []string{eventStatusFailed, status.ReasonLoadFailed}
		const tries = 100
		for range tries {
			recorder.Event(newGateway(), corev1.EventTypeNormal, often[0], "applied Deployment")
			recorder.Event(newGateway(), corev1.EventTypeWarning, often[1], "not now")
		}
		for _, reason := range once {
			recorder.Event(newGateway(), corev1.EventTypeWarning, reason, "no")
		}
		synctest.Wait()
		told := map[string]bool{}
		for _, action := range kube.Actions() {
			if create, ok := action.(clienttesting.CreateAction); ok {
				told[create.GetObject().(*corev1.Event).Reason] = true
			}
		}
		for _, reason := range slices.Concat(often, once) {
			if !told[reason] {
				t.Errorf("%s is not told", reason)
			}
		}
		if writes := len(kube.Actions()); writes > tries {
			t.Errorf("%d writes of events, want most of them dropped", writes)
		}
	})
}
