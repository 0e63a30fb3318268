package v1

// WAF refuses requests that look like attacks, with 403. It uses the OWASP Core Rule Set, whose rules add to a score
// of the request. Responses are not looked at.
//
// It comes after all other filters that refuse requests, because it takes the most time: some milliseconds of a CPU for
// each request.
type WAF struct {
	// Which rules to use, from 1 to 4. Higher levels find more attacks, and more harmless requests look like one.
	// +optional
	// +default=1
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4
	ParanoiaLevel int32 `json:"paranoiaLevel,omitempty"`

	// The score from which a request is refused. A rule adds 2 to 5, by how grave it is what it found: with 5, one grave
	// find is enough.
	// +optional
	// +default=5
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	AnomalyThreshold int32 `json:"anomalyThreshold,omitempty"`

	// Rules that take harmless requests for attacks: the access log has their IDs.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	ExcludedRules []WAFExclusion `json:"excludedRules,omitempty"`

	// The ConfigMap with rules of your own under the key rules.conf, in the language of ModSecurity: SecRule, SecAction
	// and SecMarker. It is in the Gateway's namespace. The pods mount it. An edit of it takes no new pods. The name of
	// another one does. While its rules cannot be used, those before stay in use; without any, requests are answered
	// with 503.
	// +optional
	RulesRef *ObjectReference `json:"rulesRef,omitempty"`

	// The most bytes that the body of a request may have; a longer one is answered with 413. The proxy waits for the whole
	// body, up to 20 seconds, before the backend gets anything of the request. Each KiB takes about 10 milliseconds of a
	// CPU.
	// +optional
	// +default=32768
	// +kubebuilder:default=32768
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=131072
	MaxBodyBytes int32 `json:"maxBodyBytes,omitempty"`
}

// WAFExclusion is a rule of the Core Rule Set that is not used, or not for some part of requests.
type WAFExclusion struct {
	// The ID of the rule.
	// +required
	// +kubebuilder:validation:Minimum=911000
	// +kubebuilder:validation:Maximum=944999
	ID int32 `json:"id"`

	// The part of requests that the rule does not look at. Empty: the rule is not used at all.
	// +optional
	Target *WAFTarget `json:"target,omitempty"`
}

// WAFTarget is a part of requests.
type WAFTarget struct {
	// Argument: parameters of the query and of bodies; those of JSON are named json.a.b. Cookie: cookies. Header: headers.
	// +required
	Type WAFTargetType `json:"type"`

	// Its name, in upper or lower case.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	Name string `json:"name"`
}

// WAFTargetType is a kind of parts of requests.
//
// +kubebuilder:validation:Enum=Argument;Cookie;Header
type WAFTargetType string

const (
	// WAFArgument is a parameter of the query or of a body.
	WAFArgument WAFTargetType = "Argument"
	// WAFCookie is a cookie.
	WAFCookie WAFTargetType = "Cookie"
	// WAFHeader is a header.
	WAFHeader WAFTargetType = "Header"
)
