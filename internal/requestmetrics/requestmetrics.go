// Package requestmetrics makes histograms of the lines that HAProxy writes about requests (see render/measure.go).
package requestmetrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"gateway/internal/routing"
)

const (
	// maxSeries is how many routes or rules, each by the class of the status, have histograms. Those beyond share the
	// ones of their namespace.
	maxSeries = 4000
	// maxShared is how many namespaces, each by the class of the status, have such. Those beyond share one.
	maxShared = 1000
)

// idleCollections is after how many collections without a request a route or rule may lose its histograms to another.
const idleCollections = 10

// Collector has the histograms. It may be used by several goroutines.
type Collector struct {
	duration, response, received, sent *prometheus.HistogramVec
	lost                               prometheus.Counter
	// limit is how many series there may be beside the shared ones, and maxShared how many of these beside one for all.
	limit, maxShared int

	mu sync.Mutex
	// own is the namespace of the routes that name none.
	own string
	// series are by the key of a request, shared by the namespace and the class of the status.
	series, shared map[string]*series
	// namespaces counts the series of each.
	namespaces map[string]int
	// collections counts how often Prometheus has asked, cleared is when idle series were last removed.
	collections, cleared int
}

// series are the histograms of the requests of a route or rule whose status is of a class.
type series struct {
	labels                             []string
	duration, response, received, sent prometheus.Observer
	// used is the number of the collection after which it was used last.
	used int
}

// New returns a Collector without requests.
func New() *Collector {
	vec := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: buckets, NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100,
		}, []string{"route_namespace", "route", "rule", "code"})
	}
	seconds := []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60}
	bytes := prometheus.ExponentialBuckets(256, 8, 8) // 256 B to 512 MiB
	return &Collector{
		duration: vec("gateway_request_duration_seconds", "Time from the first byte of a request to the end of its response.", seconds),
		response: vec("gateway_backend_response_seconds", "Time until a backend has sent the headers of its response.", seconds),
		received: vec("gateway_request_size_bytes", "Bytes received of a request, with its headers.", bytes),
		sent:     vec("gateway_response_size_bytes", "Bytes sent of a response, with its headers.", bytes),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gateway_request_metrics_lost_total", Help: "Requests that are in no histogram, because the agent was too slow for HAProxy.",
		}),
		series: map[string]*series{}, shared: map[string]*series{}, namespaces: map[string]int{}, limit: maxSeries, maxShared: maxShared, cleared: -1,
	}
}

// SetNamespace sets the namespace of the routes in the Gateway itself.
func (c *Collector) SetNamespace(own string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.own = own
}

// Describe is for prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, vec := range c.histograms() {
		vec.Describe(ch)
	}
	c.lost.Describe(ch)
}

// Collect is for prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	c.collections++
	c.mu.Unlock()
	for _, vec := range c.histograms() {
		vec.Collect(ch)
	}
	c.lost.Collect(ch)
}

func (c *Collector) histograms() []*prometheus.HistogramVec {
	return []*prometheus.HistogramVec{c.duration, c.response, c.received, c.sent}
}

// observe takes a request in.
func (c *Collector) observe(r request) {
	c.mu.Lock()
	key := r.key
	found, ok := c.series[string(key)]
	if !ok {
		found = c.add(string(key), r)
	}
	found.used = c.collections
	c.mu.Unlock()
	observeTraced(found.duration, float64(r.duration)/1000, r.trace)
	if r.response >= 0 {
		observeTraced(found.response, float64(r.response)/1000, r.trace)
	}
	found.received.Observe(float64(r.received))
	found.sent.Observe(float64(r.sent))
}

// observeTraced takes in a value, and a trace as its exemplar if there is one.
func observeTraced(histogram prometheus.Observer, value float64, trace []byte) {
	exemplars, ok := histogram.(prometheus.ExemplarObserver)
	if !ok || trace == nil {
		histogram.Observe(value)
		return
	}
	exemplars.ObserveWithExemplar(value, prometheus.Labels{"trace_id": string(trace)})
}

// add adds the series of a request. Where there are too many, it replaces those that are idle, or some of a namespace
// that has more than its share. Otherwise it returns those that a namespace has for all further routes.
func (c *Collector) add(key string, r request) *series {
	namespace := routing.NamespaceOf(string(r.route), c.own)
	if len(c.series) >= c.limit && c.cleared != c.collections {
		c.removeIdle()
		c.cleared = c.collections
	}
	if len(c.series) >= c.limit && !c.makeRoom(namespace) {
		return c.share(namespace, r.class())
	}
	added := c.newSeries(namespace, string(r.route), string(r.rule), r.class())
	c.series[key] = added
	c.namespaces[namespace]++
	return added
}

func (c *Collector) newSeries(labels ...string) *series {
	return &series{
		labels: labels, duration: c.duration.WithLabelValues(labels...), response: c.response.WithLabelValues(labels...),
		received: c.received.WithLabelValues(labels...), sent: c.sent.WithLabelValues(labels...),
	}
}

// share returns the series of further routes of a namespace.
func (c *Collector) share(namespace, class string) *series {
	key, labels := namespace+" "+class, []string{namespace, "", "", class}
	if c.shared[key] == nil && (namespace == "" || len(c.shared) >= c.maxShared) {
		key, labels = "", []string{"", "", "", ""}
	}
	if c.shared[key] == nil {
		c.shared[key] = c.newSeries(labels...)
	}
	return c.shared[key]
}

// makeRoom takes a series from the namespace that has most of them, if the given one has less than its share.
func (c *Collector) makeRoom(namespace string) bool {
	names := len(c.namespaces)
	if c.namespaces[namespace] == 0 {
		names++
	}
	share := max(c.limit/names, 1)
	if c.namespaces[namespace] >= share {
		return false
	}
	largest, oldest := "", ""
	for name, count := range c.namespaces {
		if count > c.namespaces[largest] {
			largest = name
		}
	}
	if c.namespaces[largest] <= share {
		return false
	}
	for key, s := range c.series {
		if s.labels[0] == largest && (oldest == "" || s.used < c.series[oldest].used) {
			oldest = key
		}
	}
	c.remove(oldest)
	return true
}

func (c *Collector) removeIdle() {
	isIdle := func(s *series) bool { return s.used < c.collections-idleCollections }
	for key, s := range c.series {
		if isIdle(s) {
			c.remove(key)
		}
	}
	for key, s := range c.shared {
		if isIdle(s) {
			c.forget(s)
			delete(c.shared, key)
		}
	}
}

func (c *Collector) remove(key string) {
	removed := c.series[key]
	c.forget(removed)
	delete(c.series, key)
	namespace := removed.labels[0]
	if c.namespaces[namespace]--; c.namespaces[namespace] == 0 {
		delete(c.namespaces, namespace)
	}
}

// forget removes what Prometheus gets.
func (c *Collector) forget(s *series) {
	for _, vec := range c.histograms() {
		vec.DeleteLabelValues(s.labels...)
	}
}
