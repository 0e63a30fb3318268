package main

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
	"gateway/internal/proxypod"
)

// TestAttachmentsReachTheChildren: pods mount what all GatewayAttachments of their Gateway name, and what the list has
// that an operator of an earlier release wrote. Agents may watch what is in their own namespace.
func TestAttachmentsReachTheChildren(t *testing.T) {
	f := newFixture(t, newGateway(func(g *appv1.Gateway) {
		g.Status.Attachments = &appv1.Attachments{Users: []appv1.ObjectReference{{Name: "listed"}}}
	}))
	gateway := f.gateway()
	for namespace, spec := range map[string]appv1.GatewayAttachmentSpec{
		gateway.Namespace: {Resources: []string{"httproutes", "routefilters"}, ConfigMaps: []appv1.ObjectReference{{Name: "own"}}, Users: []appv1.ObjectReference{{Name: "users"}}},
		"team":            {Resources: []string{"tlsroutes"}, ConfigMaps: []appv1.ObjectReference{{Name: "of-team"}}},
		"stranger":        {Resources: []string{"tcproutes"}, ConfigMaps: []appv1.ObjectReference{{Name: "of-stranger"}}},
	} {
		spec.GatewayName, spec.Namespace = gateway.Name, namespace
		attachment := &appv1.GatewayAttachment{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: gateway.Namespace, Name: gateway.Name + "." + namespace, Labels: proxypod.SelectorLabels(gateway.Name),
				OwnerReferences: []metav1.OwnerReference{{Kind: "Gateway", Name: gateway.Name, UID: gateway.UID, Controller: new(true)}},
			},
			Spec: spec,
		}
		if namespace == "stranger" {
			attachment.OwnerReferences[0].UID = "of another Gateway of that name"
		}
		must.Get(f.gateways.AppV1().GatewayAttachments(gateway.Namespace).Create(t.Context(), attachment, metav1.CreateOptions{}))(t)
	}
	f.mustSync()
	deployments, err := f.kube.AppsV1().Deployments(gateway.Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(deployments.Items) != 1 {
		t.Fatalf("there are %v, %v", deployments, err)
	}
	var mounted []string
	for _, volume := range deployments.Items[0].Spec.Template.Spec.Volumes {
		if volume.Projected == nil {
			continue
		}
		for _, source := range volume.Projected.Sources {
			switch {
			case source.ConfigMap != nil:
				mounted = append(mounted, source.ConfigMap.Name)
			case source.Secret != nil:
				mounted = append(mounted, source.Secret.Name)
			}
		}
	}
	slices.Sort(mounted)
	if got := strings.Join(slices.Compact(mounted), " "); !strings.Contains(got, "listed of-team own") || !strings.Contains(got, "users") || strings.Contains(got, "stranger") {
		t.Errorf("the pods mount %s", got)
	}
	roles := must.Get(f.kube.RbacV1().Roles(gateway.Namespace).List(t.Context(), metav1.ListOptions{}))(t)
	var watched []string
	for _, rule := range roles.Items[0].Rules {
		watched = append(watched, rule.Resources...)
	}
	for resource, want := range map[string]bool{"httproutes": true, "routefilters": true, "tlsroutes": false, "tcproutes": false} {
		if slices.Contains(watched, resource) != want {
			t.Errorf("the agents may watch %v", watched)
		}
	}
}
