package e2e

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// child is an object the operator made for a Gateway.
type child struct {
	kind   string
	uid    func(context.Context) (types.UID, error)
	delete func(context.Context) error
}

// children are all objects of the Gateway in the namespace, one of each kind.
func children(namespace string) []child {
	return []child{
		newChild("Deployment", kube.AppsV1().Deployments(namespace)),
		newChild("Service", kube.CoreV1().Services(namespace)),
		newChild("ServiceAccount", kube.CoreV1().ServiceAccounts(namespace)),
		newChild("Role", kube.RbacV1().Roles(namespace)),
		newChild("RoleBinding", kube.RbacV1().RoleBindings(namespace)),
		newChild("PodDisruptionBudget", kube.PolicyV1().PodDisruptionBudgets(namespace)),
	}
}

// objectClient is what the typed clients of all kinds have in common.
type objectClient[T metav1.Object] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

func newChild[T metav1.Object](kind string, client objectClient[T]) child {
	return child{
		kind: kind,
		uid: func(ctx context.Context) (types.UID, error) {
			object, err := client.Get(ctx, childName, metav1.GetOptions{})
			if err != nil {
				return "", err
			}
			return object.GetUID(), nil
		},
		delete: func(ctx context.Context) error {
			return client.Delete(ctx, childName, metav1.DeleteOptions{})
		},
	}
}
