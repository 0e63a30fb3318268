package try

import (
	"slices"
	"testing"

	"gateway/internal/model"
)

// TestMountedUsers: the agent mounts the Secrets with users that filters of rules and of listeners name.
func TestMountedUsers(t *testing.T) {
	t.Parallel()
	users := func(secret string) *model.Action { return &model.Action{BasicAuth: &model.BasicAuth{Secret: secret}} }
	filters := users("listener")
	o := objects{gateway: &model.Gateway{
		Listeners: []model.Listener{{Name: "a", Filters: filters}, {Name: "b"}},
		Routes:    model.Ordered(model.Route{Rules: []model.Rule{{Action: users("rule")}, {}}}),
	}}
	if got, want := o.mounts()[2], []string{"listener", "rule"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
