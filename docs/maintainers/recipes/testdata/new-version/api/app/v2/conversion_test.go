package v2_test

import (
	"math/rand"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/randfill"

	appv1 "gateway/api/app/v1"
	appv2 "gateway/api/app/v2"
)

// FuzzRoundTrip: whatever a Gateway says, it says after a way to the other version and back.
func FuzzRoundTrip(f *testing.F) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appv1.AddToScheme, appv2.AddToScheme} {
		if err := add(scheme); err != nil {
			f.Fatal(err)
		}
	}
	for seed := range int64(100) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed int64) {
		random := randfill.New().NilChance(0.3).NumElements(0, 3).RandSource(rand.NewSource(seed)).Funcs(
			func(q *resource.Quantity, c randfill.Continue) {
				*q = *resource.NewQuantity(c.Int63(), resource.DecimalSI)
			},
			func(*metav1.TypeMeta, randfill.Continue) {}, // who encodes sets it
		)
		one, two := &appv1.Gateway{}, &appv2.Gateway{}
		random.Fill(one)
		random.Fill(two)
		roundTrip(t, scheme, one, &appv2.Gateway{}, &appv1.Gateway{})
		roundTrip(t, scheme, two, &appv1.Gateway{}, &appv2.Gateway{})
	})
}

func roundTrip(t *testing.T, scheme *runtime.Scheme, in, other, out runtime.Object) {
	t.Helper()
	want := in.DeepCopyObject()
	if err := scheme.Convert(in, other, nil); err != nil {
		t.Fatal(err)
	}
	if err := scheme.Convert(other, out, nil); err != nil {
		t.Fatal(err)
	}
	if !equality.Semantic.DeepEqual(want, out) {
		t.Errorf("got\n%+v\nwant\n%+v", out, want)
	}
}
