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
	// Ready is how many of them receive traffic, and Silent reports whether one of these has not reported.
	Ready  int
	Silent bool
	// Problems are what any of them reports. Omitted says that there are more; "" if there are none.
	Problems []appv1.ProxyProblem
	Omitted  string
	// proxies are what each of them runs.
	proxies []proxied
}

type resourceOf struct{ resource, namespace string }

// proxied is what one proxy runs: everything up to a resourceVersion, and exceptions.
type proxied struct {
	base       string
	exceptions map[resourceOf]string
}

// has reports whether the proxy runs the objects of a resource and namespace up to a resourceVersion.
func (p proxied) has(resource, namespace, version string) bool {
	order, err := resourceversion.CompareResourceVersion(version, cmp.Or(p.exceptions[resourceOf{resource, namespace}], p.base))
	return err == nil && order <= 0
}

// LiveOf returns what the proxies of a Gateway run. Proxies count if they receive traffic, or have reported and may
// receive traffic at any moment.
func LiveOf(gateway *appv1.Gateway, endpointSlices []*discoveryv1.EndpointSlice, all []*appv1.GatewayProxy) Live {
	return liveOf(gateway, endpointsOf(endpointSlices), all)
}

// LiveOfAll returns what all proxies of a Gateway run that have reported, as if they received traffic.
func LiveOfAll(gateway *appv1.Gateway, all []*appv1.GatewayProxy) Live {
	var proxies endpoints
	for _, report := range all {
		proxies.alive = append(proxies.alive, report.Name)
	}
	proxies.ready = proxies.alive
	return liveOf(gateway, proxies, all)
}

func liveOf(gateway *appv1.Gateway, proxies endpoints, all []*appv1.GatewayProxy) Live {
	reports := reportsOf(gateway, proxies, all)
	live := Live{Ready: len(proxies.ready)}
	for _, pod := range proxies.alive {
		report, reported := reports[pod]
		if !reported && !slices.Contains(proxies.ready, pod) {
			continue
		}
		live.Silent = live.Silent || !reported
		live.Problems = append(live.Problems, report.Problems...)
		live.Omitted = cmp.Or(live.Omitted, omittedBy(pod, report))
		one := proxied{report.ResourceVersion, make(map[resourceOf]string, len(report.Resources))}
		for _, r := range report.Resources {
			one.exceptions[resourceOf{r.Resource, r.Namespace}] = r.ResourceVersion
		}
		live.proxies = append(live.proxies, one)
	}
	return live
}

// Has reports whether all proxies run the objects of a resource and namespace up to a resourceVersion.
func (l Live) Has(resource, namespace, version string) bool {
	return l.Ready > 0 && !slices.ContainsFunc(l.proxies, func(p proxied) bool { return !p.has(resource, namespace, version) })
}
