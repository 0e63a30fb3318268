// Package conversion answers the API server when it asks for an object in another version.
package conversion

import (
	"encoding/json"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	appv1 "gateway/api/app/v1"
	appv2 "gateway/api/app/v2"
)

// review is apiextensions.k8s.io/v1 ConversionReview, whose package would bring the whole API of CRDs along.
type review struct {
	metav1.TypeMeta `json:",inline"`
	Request         *request  `json:"request,omitempty"`
	Response        *response `json:"response,omitempty"`
}

type request struct {
	UID               types.UID              `json:"uid"`
	DesiredAPIVersion string                 `json:"desiredAPIVersion"`
	Objects           []runtime.RawExtension `json:"objects"`
}

type response struct {
	UID              types.UID              `json:"uid"`
	ConvertedObjects []runtime.RawExtension `json:"convertedObjects"`
	Result           metav1.Status          `json:"result"`
}

var (
	scheme  = runtime.NewScheme()
	decoder = serializer.NewCodecFactory(scheme).UniversalDeserializer()
)

func init() {
	utilruntime.Must(appv1.AddToScheme(scheme))
	utilruntime.Must(appv2.AddToScheme(scheme))
}

// Handle answers a ConversionReview: with all objects, or with why not.
func Handle(w http.ResponseWriter, r *http.Request) {
	var asked review
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || asked.Request == nil {
		http.Error(w, fmt.Sprintf("this is no ConversionReview: %v", err), http.StatusBadRequest)
		return
	}
	answer := &response{UID: asked.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	for _, object := range asked.Request.Objects {
		converted, err := convert(object.Raw, asked.Request.DesiredAPIVersion)
		if err != nil {
			answer.ConvertedObjects = nil
			answer.Result = metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
			break
		}
		answer.ConvertedObjects = append(answer.ConvertedObjects, runtime.RawExtension{Object: converted})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review{TypeMeta: asked.TypeMeta, Response: answer}) // the API server is gone: it asks again
}

// convert returns an object in another version.
func convert(raw []byte, version string) (runtime.Object, error) {
	in, kind, err := decoder.Decode(raw, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("failed to decode an object: %w", err)
	}
	target := schema.FromAPIVersionAndKind(version, kind.Kind)
	out, err := scheme.New(target)
	if err != nil {
		return nil, fmt.Errorf("failed to make a %s: %w", target, err)
	}
	if err := scheme.Convert(in, out, nil); err != nil {
		return nil, fmt.Errorf("failed to convert a %s: %w", kind, err)
	}
	out.GetObjectKind().SetGroupVersionKind(target)
	return out, nil
}
