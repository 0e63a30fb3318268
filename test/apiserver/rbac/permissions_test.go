package rbac

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gateway/internal/must"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

// Where permissions hold, as docs/maintainers/permissions.md says it.
const (
	everywhere   = "every namespace"
	operatorsOwn = "gateway-system"
	agentsOwn    = "the Gateway's namespace"
	// itsGateway stands for the name of the agent's Gateway.
	itsGateway = "its own"
)

// TestPermissionsAreTheDocumentedOnes compares what the API server says that the operator and an agent may do, with the
// tables of docs/maintainers/permissions.md: each permission is in both.
func TestPermissionsAreTheDocumentedOnes(t *testing.T) {
	installOperator(t)
	newNamespace(t, "permissions")
	newNamespace(t, "elsewhere")
	account := newAgent(t, newGateway(t, "permissions", gatewayName, 80))
	got := map[string]bool{}
	operator, agent := as(t, operatorNamespace, operatorName), as(t, "permissions", account)
	wide := permissions(t, operator, "operator", everywhere, "elsewhere")
	for permission := range wide {
		got[permission] = true
	}
	for permission := range permissions(t, operator, "operator", operatorsOwn, operatorNamespace) {
		if !wide[strings.Replace(permission, operatorsOwn, everywhere, 1)] {
			got[permission] = true
		}
	}
	for permission := range permissions(t, agent, "agent", agentsOwn, "permissions") {
		got[permission] = true
	}
	if others := permissions(t, agent, "agent", everywhere, "elsewhere"); len(others) > 0 {
		t.Errorf("an agent may do something outside its namespace: %v", others)
	}
	want := documented(t)
	for permission := range got {
		expectHarmless(t, permission)
		if !want[permission] {
			t.Errorf("docs/maintainers/permissions.md lacks %s", permission)
		}
	}
	for permission := range want {
		if !got[permission] {
			t.Errorf("docs/maintainers/permissions.md has what is not granted: %s", permission)
		}
	}
	if len(got) < 30 {
		t.Errorf("only %d permissions were found", len(got))
	}
}

// permissions are what a user may do in a namespace, beside what every ServiceAccount may: one line for each verb.
func permissions(t *testing.T, user testenv.Clients, who, where, namespace string) map[string]bool {
	t.Helper()
	common := rules(t, as(t, "default", nobody(t)), "", "", namespace)
	all := rules(t, user, who, where, namespace)
	for line := range all {
		_, permission, _ := strings.Cut(line, "| ")
		_, permission, _ = strings.Cut(permission, "| ")
		if common["| | "+permission] {
			delete(all, line)
		}
	}
	return all
}

// nobody is a ServiceAccount without permissions of its own.
func nobody(t *testing.T) string {
	t.Helper()
	account := must.Get(server.Kube.CoreV1().ServiceAccounts("default").Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{GenerateName: "nobody-"}}, metav1.CreateOptions{}))(t)
	return account.Name
}

func rules(t *testing.T, user testenv.Clients, who, where, namespace string) map[string]bool {
	t.Helper()
	review := must.Get(user.Kube.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(), &authorizationv1.SelfSubjectRulesReview{
		Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace},
	}, metav1.CreateOptions{}))(t)
	if review.Status.Incomplete || review.Status.EvaluationError != "" {
		t.Fatalf("the API server does not tell all: %+v", review.Status)
	}
	all := map[string]bool{}
	for _, rule := range review.Status.ResourceRules {
		names := strings.ReplaceAll(strings.Join(rule.ResourceNames, ","), gatewayName, itsGateway)
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					all[permission(who, where, group, resource, names, verb)] = true
				}
			}
		}
	}
	for _, rule := range review.Status.NonResourceRules {
		for _, url := range rule.NonResourceURLs {
			for _, verb := range rule.Verbs {
				all[permission(who, where, "", url, "", verb)] = true
			}
		}
	}
	return all
}

// permission is a line that names one permission. Group "" is core's.
func permission(who, where, group, resource, names, verb string) string {
	return strings.Join([]string{who, where, group, resource, names, verb}, "| ")
}

// deletable is what the garbage collector cannot delete: RoleBindings in other namespaces than their Gateway, and our
// Gateways for Gateways of the Gateway API that have another class by now. Of others, it would be too late.
var deletable = map[string]bool{
	"operator rbac.authorization.k8s.io/rolebindings": true, "operator app.example.com/gateways": true,
	"operator app.example.com/gatewayattachments": true,
}

// expectHarmless checks what no permission of anybody may be.
func expectHarmless(t *testing.T, line string) {
	t.Helper()
	fields := strings.Split(line, "| ")
	who, resource, names, verb := fields[0], fields[3], fields[4], fields[5]
	if verb == "delete" && !deletable[who+" "+fields[2]+"/"+resource] {
		t.Errorf("%s: nobody needs to delete it", line)
	}
	for _, bad := range []string{"*", "escalate", "bind", "impersonate", "deletecollection", "approve", "sign"} {
		if slices.Contains(fields, bad) {
			t.Errorf("%s: nobody needs %s", line, bad)
		}
	}
	for _, bad := range []string{"secrets", "configmaps", "pods", "nodes", "tokenreviews", "serviceaccounts/token", "pods/exec"} {
		if resource == bad {
			t.Errorf("%s: nobody needs %s", line, bad)
		}
	}
	writes := verb == "create" || verb == "update" || verb == "patch"
	if who == "agent" && (resource == "gateways" && names != itsGateway || writes && strings.TrimSuffix(resource, "/status") != "gatewayproxies") {
		t.Errorf("%s: an agent reads its own Gateway and writes GatewayProxies", line)
	}
}

var (
	// table is one of docs/maintainers/permissions.md, with whose permissions it has, and where they hold.
	table = regexp.MustCompile(`(?m)^## (?:The|An) (operator|agent), in (.+)\n\n\| API group .+\n\|[-|]+\n((?:\|.+\n)+)`)
	row   = regexp.MustCompile(`(?m)^\| (\S+) \| (.+?)(?: \((.+)\))? \| (.+) \| (.+) \|$`)
)

// documented are the permissions in the tables of docs/maintainers/permissions.md.
func documented(t *testing.T) map[string]bool {
	t.Helper()
	content := must.Get(os.ReadFile(filepath.Join(testbuild.MustRoot(t), "docs", "maintainers", "permissions.md")))(t)
	all := map[string]bool{}
	for _, found := range table.FindAllStringSubmatch(string(content), -1) {
		rows := row.FindAllStringSubmatch(found[3], -1)
		if lines := strings.Count(found[3], "\n"); len(rows) != lines {
			t.Fatalf("%d of %d rows have four columns, the last one with a reason:\n%s", len(rows), lines, found[3])
		}
		for _, cells := range rows {
			group := strings.TrimPrefix(cells[1], "core")
			for resource := range strings.SplitSeq(cells[2], ", ") {
				for verb := range strings.SplitSeq(cells[4], ", ") {
					all[permission(found[1], found[2], group, resource, cells[3], verb)] = true
				}
			}
		}
	}
	return all
}
