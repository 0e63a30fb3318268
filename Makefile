SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The images to build and deploy. HAPROXY_IMG is what the proxy pods run.
IMG ?= gateway:dev
ECHO_IMG ?= gateway-echo:dev
HAPROXY_IMG ?= haproxy:3.4

# Whose go.work has this module in it, to work on a program of theirs too, still builds it by its own go.mod: tools are found by theirs.
export GOWORK := off

# All programs are built alike, so that each finds in the cache what others have in common with it: make demo, what make try has built.
GO_BUILD = CGO_ENABLED=0 go build -trimpath -gcflags=all=-dwarf=false -ldflags='-s -w'

# The tools have modules of their own, so that users of the generated clients do not inherit them.
TOOL = go tool -modfile=hack/tools/go.mod
SHFMT = $(TOOL) shfmt -i 4
SCRIPTS = '*.sh' .ci/run
# golangci-lint with kube-api-linter in it.
LINTER = sigs.k8s.io/kube-api-linter/cmd/golangci-lint-kube-api-linter
# With no KUBECONFIG, kubectl and the programs use the one-node cluster of hack/cluster.
KUBECTL ?= hack/kubectl.sh

##@ Try it

.PHONY: try
try: ## Run a Gateway of a file on this machine, without Kubernetes (FILE=artifacts/gateway-api/route-filter.yaml)
	hack/try.sh $(or $(FILE),artifacts/gateway-api/route-filter.yaml)

.PHONY: demo
demo: ## Run a Gateway on kind, on a one-node Kubernetes started here, or in DEMO_KUBECONFIG's cluster (IMG=, ECHO_IMG=)
	hack/demo.sh

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Build

.PHONY: build
build: bin/gateway-login bin/gateway-waf ## Build gateway, gateway-agent, gateway-keys, gateway-login, gateway-waf and gateway-key-server into bin/
	$(GO_BUILD) -o bin/ . ./cmd/gateway-agent ./cmd/gateway-keys ./cmd/gateway-key-server

.PHONY: bin/gateway-login bin/gateway-waf
bin/gateway-login:
	cd cmd/gateway-login && $(GO_BUILD) -o ../../bin/ .
bin/gateway-waf:
	cd cmd/gateway-waf && $(GO_BUILD) -tags=no_fs_access -o ../../bin/ .

.PHONY: plugin
plugin: ## Build the kubectl plugin into bin/: put kubectl-gateway on your PATH
	cd cmd/kubectl-gateway && $(GO_BUILD) -o ../../bin/ .

.PHONY: generate
generate: ## Generate deepcopy, clientset, listers, informers and apply configurations from api/
	hack/update-codegen.sh

.PHONY: manifests
manifests: ## Generate the CRDs and the operator's RBAC into artifacts/
	rm -rf artifacts/crd
	$(TOOL) controller-gen crd:headerFile=/dev/null paths=./api/... output:crd:dir=artifacts/crd
	go run ./hack/crd-schema artifacts/crd/app.example.com_gateways.yaml
	go run ./hack/crd-schema artifacts/crd/app.example.com_routefilters.yaml
	go run ./hack/crd-schema artifacts/crd/app.example.com_gatewayconfigs.yaml
	$(TOOL) controller-gen rbac:roleName=gateway-operator,headerFile=/dev/null paths=. output:rbac:dir=artifacts/rbac

.PHONY: api-docs
api-docs: ## Generate the API reference, docs/reference/api.md
	$(TOOL) crd-ref-docs --log-level=ERROR --source-path=api --config=hack/api-docs.yaml --renderer=markdown --max-depth=20 --output-path=docs/reference/api.md

.PHONY: run
run: build install ## Run the operator from here, in place of the deployed one (make undeploy first)
	KUBECONFIG=$$(hack/kubeconfig.sh) bin/gateway -alsologtostderr -agent-image=$(IMG) -haproxy-image=$(HAPROXY_IMG)

.PHONY: docker-build
docker-build: ## Build the images with docker (IMG=, ECHO_IMG=)
	docker build -t $(IMG) .
	docker build -t $(ECHO_IMG) --target echo .

.PHONY: docker-push
docker-push: ## Push the images with docker (IMG=, ECHO_IMG=)
	docker push $(IMG)
	docker push $(ECHO_IMG)

.PHONY: release
release: ## Make everything a release has, into dist/ (VERSION=v0.1.0, RELEASE_IMAGE=, HAPROXY_IMG=, RELEASE_URL=, RELEASE_KEY=)
	HAPROXY_IMG=$(HAPROXY_IMG) hack/release.sh $(VERSION)

.PHONY: verify-release
verify-release: ## Verify a release by its key, and by making it again of its tag (DIR=, KEY=)
	go run ./hack/release -verify $(DIR) -key $(KEY)

##@ Check

.PHONY: check
check: ## Run what to run all the time: vet and the unit tests, with real HAProxy and the race detector
	hack/test.sh check

.PHONY: test
test: ## Run what CI runs: lint, unit tests, a real API server, and a cluster as demo has, or TEST_KUBECONFIG's
	hack/test.sh test

.PHONY: test-all
test-all: ## Run everything: also all faults, what asserts times, fuzzing, soak (SOAK=), images, vulnerabilities
	hack/test.sh all

.PHONY: fmt
fmt: ## Format the Go code and the shell scripts
	gofmt -w $$(git ls-files '*.go' | grep -vE '^generated/|zz_generated')
	$(SHFMT) -w $$(git ls-files $(SCRIPTS))

.PHONY: vet
vet: ## Run go vet
	go vet -tags=slow ./...
	cd test && go vet -tags=slow,nodes ./...
	cd cmd/kubectl-gateway && go vet -tags=slow ./...
	cd cmd/gateway-login && go vet ./...
	cd cmd/gateway-waf && go vet ./...
	cd hack/dex && go vet ./...
	cd hack/zitadel && go vet ./...
	cd examples/clients && go vet ./...

.PHONY: lint
lint: ## Run golangci-lint, kube-api-linter and shellcheck, and check which packages are pure
	source hack/lib.sh && need shellcheck shellcheck
	git ls-files -s $(SCRIPTS) | awk '$$1 == 100755 {print $$4}' | xargs shellcheck -x -P SCRIPTDIR
	$(SHFMT) -d $$(git ls-files $(SCRIPTS))
	go build -C hack/lint -o ../../bin/ $(LINTER)
	bin/$(notdir $(LINTER)) run ./...
	for module in test cmd/kubectl-gateway cmd/gateway-login cmd/gateway-waf examples/clients; do \
		(cd $$module && $(CURDIR)/bin/$(notdir $(LINTER)) run --config $(CURDIR)/.golangci.yml ./...) || failed=1; \
	done; [[ -z $${failed:-} ]]

.PHONY: verify
verify: ## Check that generated files are current
	hack/verify-codegen.sh

.PHONY: conformance
conformance: ## Run the Gateway API's conformance suite on the one-node Kubernetes; the report is dist/conformance.yaml (ONLY=)
	hack/conformance.sh

.PHONY: e2e
e2e: ## Run only the end-to-end tests, all of them: features, load during every planned change, faults
	hack/test.sh e2e

.PHONY: soak
soak: ## Let a Gateway change for 30 minutes (SOAK=) and see whether anything grows: a table, and dist/soak.svg
	hack/test.sh soak

.PHONY: test-arm64
test-arm64: ## Run the unit tests of what reads and writes bytes as arm64 does, by qemu
	hack/arm64.sh

.PHONY: fuzz
fuzz: ## Run every fuzz target for a while (FUZZTIME=30s)
	hack/fuzz.sh

.PHONY: vuln
vuln: ## Look for known vulnerabilities in what the code calls
	hack/vuln.sh

.PHONY: reproducible
reproducible: ## Make a release and verify it, which makes it again; change its files
	hack/reproducible.sh

.PHONY: bench
bench: ## Run the benchmarks; BENCH=go, dataplane, waf, propagation, routes, namespaces, hosts, ingresses, memory, control or peers for one of them
	hack/bench.sh $(BENCH)

.PHONY: prove
prove: ## Run tools that most clusters have beside the built programs; PROVE=cert-manager, external-dns, argo-rollouts, keda, nodes or gateway-api-bench for one of them
	hack/prove.sh $(PROVE)

##@ Deploy (to $KUBECONFIG's cluster, or else to the one-node cluster if it is up)

.PHONY: install
install: ## Install the CRDs
	$(KUBECTL) apply --server-side -f artifacts/crd

.PHONY: uninstall
uninstall: ## Remove the CRDs, and with them every Gateway
	$(KUBECTL) delete --ignore-not-found -f artifacts/crd

.PHONY: deploy
deploy: install ## Install the CRDs and run the operator in the cluster (IMG=, HAPROXY_IMG=)
	$(KUBECTL) apply --server-side -f artifacts/rbac
	sed -e 's|gateway:dev|$(IMG)|' -e 's|haproxy:3.4|$(HAPROXY_IMG)|' artifacts/operator/*.yaml | $(KUBECTL) apply --server-side -f -
	$(KUBECTL) -n gateway-system rollout status deployment/gateway-operator --timeout=120s

.PHONY: undeploy
undeploy: ## Remove the operator from the cluster; Gateways and their proxies stay
	$(KUBECTL) delete --ignore-not-found -f artifacts/operator -f artifacts/rbac

.PHONY: images
images: ## Build the images without docker, and push them to REGISTRY= or load them into the one-node cluster: prints their names
	@REGISTRY=$(REGISTRY) hack/images.sh
