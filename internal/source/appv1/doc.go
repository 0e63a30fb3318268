// Package appv1 translates Gateways of app.example.com/v1 to the model: the listeners of their routes, the schema's
// defaults, and the parts that have no effect. Rules become HTTPRoute rules first (rule.go), and internal/rules
// translates these. The operator, the agents and the plugin use the package, and so agree.
//
// It expects what the CRD's schema demands. It applies the schema's defaults, so that a Gateway that never saw an API
// server means the same.
//
// The package is pure: the same Gateway always gives the same model.
package appv1
