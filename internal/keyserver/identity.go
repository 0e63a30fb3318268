package keyserver

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"gateway/internal/keystream"
	"gateway/internal/proxypod"
)

const (
	// reviewTimeout is how long the API server may take to check a token, with the wait for a turn. maxReviews is how
	// many it is asked about at the same time.
	reviewTimeout = 10 * time.Second
	maxReviews    = 32
	// maxToken is how long a token may be. Those of the API server have about 1 KiB.
	maxToken = 8 << 10

	accountPrefix = "system:serviceaccount:"
	// extraPodName and extraPodUID are what the API server says of the pod of a token.
	extraPodName = "authentication.kubernetes.io/pod-name"
	extraPodUID  = "authentication.kubernetes.io/pod-uid"
)

var (
	// errNoGateway is returned if there is no Gateway for a token.
	errNoGateway = errors.New("the token is of no proxy pod of a Gateway")
	// errToken is returned if a token is not for this server.
	errToken = errors.New("the token is not for audience " + keystream.Audience)
)

// identity is who asks.
type identity struct {
	gateway types.NamespacedName
	podName string
	pod     types.UID
}

// reviewer asks the API server about tokens.
type reviewer struct {
	kube kubernetes.Interface
	// turns bounds how many are asked about at once.
	turns chan struct{}
}

func newReviewer(kube kubernetes.Interface) *reviewer {
	return &reviewer{kube: kube, turns: make(chan struct{}, maxReviews)}
}

// unchecked returns the Gateway that a token claims to be for. The API server is not asked about one that cannot be
// right: nobody can have it asked by sending anything.
func unchecked(token string, now time.Time) (types.NamespacedName, error) {
	var claimed struct {
		Audience audiences `json:"aud"`
		Subject  string    `json:"sub"`
		Expiry   float64   `json:"exp"`
	}
	parts := strings.Split(token, ".")
	if len(token) > maxToken || len(parts) != 3 {
		return types.NamespacedName{}, errToken
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err == nil {
		err = json.Unmarshal(payload, &claimed)
	}
	if err != nil || !slices.Contains(claimed.Audience, keystream.Audience) || int64(claimed.Expiry) <= now.Unix() {
		return types.NamespacedName{}, errToken
	}
	return gatewayOf(claimed.Subject)
}

// audiences are the audiences of a token: a text, or a list.
type audiences []string

func (a *audiences) UnmarshalJSON(content []byte) error {
	var one string
	if json.Unmarshal(content, &one) == nil {
		*a = audiences{one}
		return nil
	}
	return json.Unmarshal(content, (*[]string)(a))
}

// gatewayOf returns the Gateway whose pods have a ServiceAccount.
func gatewayOf(user string) (types.NamespacedName, error) {
	account, isAccount := strings.CutPrefix(user, accountPrefix)
	namespace, name, _ := strings.Cut(account, ":")
	gateway := strings.TrimSuffix(name, proxypod.ChildName(""))
	if !isAccount || gateway == "" || proxypod.ChildName(gateway) != name {
		return types.NamespacedName{}, errNoGateway
	}
	return types.NamespacedName{Namespace: namespace, Name: gateway}, nil
}

// review has the API server check a token: that it is for this server, and that its pod still exists. Any other error
// than errToken and errNoGateway means that the answer is unknown.
func (r *reviewer) review(ctx context.Context, token string) (identity, error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	select {
	case r.turns <- struct{}{}:
		defer func() { <-r.turns }()
	case <-ctx.Done():
		return identity{}, fmt.Errorf("failed to check the token: %w", ctx.Err())
	}
	review := &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{keystream.Audience}},
	}
	answer, err := r.kube.AuthenticationV1().TokenReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return identity{}, fmt.Errorf("failed to check the token: %w", err)
	}
	status := &answer.Status
	if !status.Authenticated || !slices.Contains(status.Audiences, keystream.Audience) {
		return identity{}, errToken
	}
	gateway, err := gatewayOf(status.User.Username)
	if err != nil {
		return identity{}, err
	}
	name, uid := status.User.Extra[extraPodName], status.User.Extra[extraPodUID]
	if len(name) != 1 || len(uid) != 1 || name[0] == "" || uid[0] == "" {
		return identity{}, errNoGateway
	}
	return identity{gateway, name[0], types.UID(uid[0])}, nil
}
