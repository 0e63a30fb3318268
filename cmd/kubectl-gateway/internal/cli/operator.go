package cli

import (
	"context"
	"fmt"

	k8sappsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OperatorSelector selects operators, as artifacts/operator labels them.
const OperatorSelector = "app.kubernetes.io/name=gateway-operator"

// Operators returns the Deployments of operators in all namespaces.
func (c Clients) Operators(ctx context.Context) ([]k8sappsv1.Deployment, error) {
	list, err := c.Apps.Deployments(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: OperatorSelector})
	if err != nil {
		return nil, fmt.Errorf("failed to list Deployments: %w", err)
	}
	return list.Items, nil
}

// Replicas is how many pods a Deployment asks for.
func Replicas(deployment *k8sappsv1.Deployment) int32 {
	if deployment.Spec.Replicas == nil {
		return 1 // the default
	}
	return *deployment.Spec.Replicas
}

// May reports whether the user may do something.
func (c Clients) May(ctx context.Context, what authorizationv1.ResourceAttributes) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &what}}
	answer, err := c.Authorization.SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("failed to ask whether you may %s %s: %w", what.Verb, what.Resource, err)
	}
	return answer.Status.Allowed, nil
}
