// Package gatewayapi keeps data planes for the Gateways of the Gateway API, and the status of its objects.
//
// For every such Gateway whose class is ours there is a Gateway of our own, which the Gateway controls, as a Deployment
// controls a ReplicaSet. What the objects mean is decided in internal/source/gatewayapi, which the agents use, too.
// Here it is found out what the proxies run, and everything is written:
//
//   - our Gateways, and a GatewayAttachment for each namespace with objects that belong to them,
//   - RoleBindings in those namespaces, or ClusterRoleBindings, by which the agents may read them,
//   - the status of classes, Gateways, ListenerSets, routes and policies.
//
// Informers tell which objects changed. A route, a RouteFilter, a policy, a Service and a report of a proxy cost what
// depends on them. Other changes may matter to any object, so everything is looked at, as it is at a resync. Changes
// are looked at together, at most once per interval. Statuses are written by several workers, and only if they change.
package gatewayapi
