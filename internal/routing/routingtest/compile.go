package routingtest

import (
	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/filters"
	"gateway/internal/model"
	"gateway/internal/routing"
	source "gateway/internal/source/appv1"
)

// Compile returns the table of a Gateway in no namespace, and its problems.
func Compile(spec *appv1.GatewaySpec) (routing.Table, []model.Problem) {
	return routing.Compile(source.Translate(&appv1.Gateway{Spec: *spec}), filters.Problem)
}
