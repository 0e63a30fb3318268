package status

import (
	"cmp"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	appv1 "gateway/api/app/v1"
)

// Live is what the proxies of a Gateway run together.
type Live struct {
	// Ready is how many of them receive traffic.
	Ready int
	// Problems are what any of them reports. Omitted says that there are more; "" if there are none.
	Problems []appv1.ProxyProblem
	Omitted  string
	// versions are the resourceVersions that all of them run, by resource and namespace.
	versions map[resourceOf]string
}

type resourceOf struct{ resource, namespace string }

// LiveOf returns what the proxies of a Gateway run. Proxies count if they receive traffic, or have reported and may
// receive traffic at any moment.
func LiveOf(gateway *appv1.Gateway, endpointSlices []*discoveryv1.EndpointSlice, all []*appv1.GatewayProxy) Live {
	proxies := endpointsOf(endpointSlices)
	reports := reportsOf(gateway, proxies, all)
	live, first := Live{Ready: len(proxies.ready)}, true
	for _, pod := range proxies.alive {
		report, reported := reports[pod]
		if !reported && !slices.Contains(proxies.ready, pod) {
			continue
		}
		live.Problems = append(live.Problems, report.Problems...)
		live.Omitted = cmp.Or(live.Omitted, omittedBy(pod, report))
		versions := map[resourceOf]string{}
		for _, r := range report.Resources {
			of := resourceOf{r.Resource, r.Namespace}
			before, known := live.versions[of]
			switch {
			case first || known && isUpTo(r.ResourceVersion, before):
				versions[of] = r.ResourceVersion
			case known:
				versions[of] = before
			}
		}
		live.versions, first = versions, false
	}
	return live
}

// isUpTo reports whether a resourceVersion equals another one or is older.
func isUpTo(version, other string) bool {
	order, err := resourceversion.CompareResourceVersion(version, other)
	return err == nil && order <= 0
}

// Has reports whether all proxies run the objects of a resource and namespace up to a resourceVersion.
func (l Live) Has(resource, namespace, version string) bool {
	return l.Ready > 0 && isUpTo(version, l.versions[resourceOf{resource, namespace}])
}
