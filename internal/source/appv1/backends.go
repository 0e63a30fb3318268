package appv1

import (
	"cmp"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
)

// policies returns the policies of spec.backends.
func (t *translator) policies() map[model.Backend]model.BackendPolicy {
	policies := make(map[model.Backend]model.BackendPolicy, len(t.spec.Backends))
	for i := range t.spec.Backends {
		of := model.Backend{Namespace: t.origin.Namespace, Service: t.spec.Backends[i].Name, Port: t.spec.Backends[i].Port}
		policies[of] = translatePolicy(&t.spec.Backends[i], of)
	}
	return policies
}

func translatePolicy(spec *appv1.Backend, of model.Backend) model.BackendPolicy {
	policy := BackendSettings(&spec.BackendSettings, of)
	if tls := spec.TLS; tls != nil {
		policy.TLS = &model.BackendTLS{CAs: namesOf(tls.CACertificateRefs), ServerName: string(tls.Hostname)}
	}
	return policy
}

// BackendSettings returns the policy for the settings of a Service port's endpoints.
func BackendSettings(spec *appv1.BackendSettings, of model.Backend) model.BackendPolicy {
	policy := model.BackendPolicy{ProxyProtocol: string(spec.ProxyProtocol)}
	if balancing := spec.LoadBalancing; balancing != nil {
		policy.Algorithm, policy.Header = string(balancing.Algorithm), strings.ToLower(string(balancing.Header))
		policy.HashBalanceFactor, policy.SlowStart = ptr.Deref(balancing.HashBalanceFactor, 0), duration(balancing.SlowStart)
	}
	if check := spec.HealthCheck; check != nil {
		policy.Check = &model.HealthCheck{
			Path: string(check.Path), Hostname: cmp.Or(string(check.Hostname), of.Name()),
			Interval: cmp.Or(duration(check.Interval), 5*time.Second), Timeout: cmp.Or(duration(check.Timeout), 2*time.Second),
			Fall: ptr.Deref(check.UnhealthyThreshold, 3), Rise: ptr.Deref(check.HealthyThreshold, 2),
		}
	}
	if outliers := spec.OutlierDetection; outliers != nil && spec.HealthCheck != nil {
		policy.MaxErrors = ptr.Deref(outliers.ConsecutiveErrors, 5)
	}
	if connections := spec.Connections; connections != nil {
		policy.MaxConnections, policy.MaxQueue = connections.MaxPerEndpoint, ptr.Deref(connections.MaxQueue, 0)
		policy.QueueTimeout = cmp.Or(duration(connections.QueueTimeout), 10*time.Second)
	}
	if wait := spec.WaitForEndpoint; wait != nil {
		policy.WaitTimeout, policy.MaxWaiting = cmp.Or(duration(wait.Timeout), 30*time.Second), ptr.Deref(wait.MaxRequests, 100)
	}
	if backup := spec.Backup; backup != nil {
		policy.Backup = model.Backend{Namespace: of.Namespace, Service: backup.Name, Port: backup.Port}
		if backup.Kind == appv1.BackupServiceImport {
			policy.Backup.Service = model.ServiceImport(backup.Name)
		}
	}
	return policy
}
