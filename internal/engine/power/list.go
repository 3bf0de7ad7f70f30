package power

import "strings"

// The API groups of roles.
const (
	rbacGroup   = "rbac.authorization.k8s.io"
	policyGroup = "authorization.proviso.dev"
)

// Where says where a right has to apply to be worth a warning.
type Where uint8

const (
	// Anywhere is never worth a warning by itself: the right is ordinary, but not for a narrowed token.
	Anywhere Where = iota
	// Cluster is a request without a namespace.
	Cluster
	// EveryNamespace is a request in namespaces that no rule or binding has named.
	EveryNamespace
)

// Row stands for requests with one of the verbs on one of the resources.
type Row struct {
	// Why says what can be done with it; it completes a sentence after "can".
	Why   string
	Where Where
	// Verbs are literal; a * at the end covers every verb with that prefix, and alone every verb.
	Verbs     []string
	Group     string
	Resources []string
	// Account is how the right, held in a namespace, leads to acting as the service accounts of that namespace.
	Account Means
}

// every stands for every group, every resource or every verb.
const every = "*"

// The verbs that can grant something by writing an object, and those that can also take something away.
const (
	writes  = "create update patch"
	changes = "create update patch delete deletecollection"
	reads   = "get list watch"
)

// rows is the list. It holds every row of *Acting as a service account* of the threat model (TK-4).
var rows = []Row{
	row("write cluster roles with rights that they do not have", Cluster, "escalate", rbacGroup, "clusterroles"),
	row("write roles of the master namespace with rights that they do not have", Cluster, "escalate", policyGroup, "roles"),
	row("write roles of every namespace with rights that they do not have", EveryNamespace, "escalate", rbacGroup, "roles"),
	row("bind every cluster role", Cluster, "bind", rbacGroup, "clusterroles"),
	row("bind every role of the master namespace", Cluster, "bind", policyGroup, "roles"),
	row("act as every user", Cluster, "impersonate", "", "users"),
	row("act as a member of every group", Cluster, "impersonate", "", "groups"),
	row("act as every service account", EveryNamespace, "impersonate", "", "serviceaccounts").account(Impersonate),
	row("make tokens of every service account", EveryNamespace, "create", "", "serviceaccounts/token").account(Mint),
	row("read the secrets of every namespace", EveryNamespace, reads, "", "secrets").account(ReadSecret),
	row("read the secrets of every namespace in the answers to patches", EveryNamespace, "patch", "", "secrets").account(ReadSecret),
	row("create pods in every namespace, and with them act as every service account", EveryNamespace, "create", "", "pods").account(RunPod),
	row("create pods in every namespace by workloads, and with them act as every service account", EveryNamespace, writes, "", "replicationcontrollers").account(RunPod),
	row("create pods in every namespace by workloads, and with them act as every service account", EveryNamespace, writes, "apps", "deployments", "replicasets", "statefulsets", "daemonsets").account(RunPod),
	row("create pods in every namespace by workloads, and with them act as every service account", EveryNamespace, writes, "batch", "jobs", "cronjobs").account(RunPod),
	row("run commands in every pod", EveryNamespace, "create", "", "pods/exec", "pods/attach").account(EnterPod),
	row("run commands in every pod", EveryNamespace, "get", "", "pods/exec", "pods/attach"), // since Kubernetes 1.35, it takes create as well
	row("run commands in every pod", EveryNamespace, "update patch", "", "pods/ephemeralcontainers").account(EnterPod),
	row("run their own images in every pod", EveryNamespace, "update patch", "", "pods").account(EnterPod),
	row("run commands in every pod, by way of the kubelets", Cluster, "create get", "", "nodes/proxy"),
	row("mount every directory of a node", Cluster, "create", "", "persistentvolumes"),
	row("approve certificates, if they may approve for the signer", Cluster, "update patch", "certificates.k8s.io", "certificatesigningrequests/approval"),
	row("see and change every object that is written", Cluster, writes, "admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
	row("see every object that is written", Cluster, writes, "admissionregistration.k8s.io", "validatingwebhookconfigurations"),
	row("change every object that is written", Cluster, writes, "admissionregistration.k8s.io", "mutatingadmissionpolicies"),
	row("convert custom resources with their own webhook", Cluster, writes, "apiextensions.k8s.io", "customresourcedefinitions"),
	row("answer for whole API groups", Cluster, writes, "apiregistration.k8s.io", "apiservices"),

	// From here on: ordinary for a person, but an escape from a narrowed token.
	row("act as another user", Anywhere, "impersonate*", every, every),
	row("hand out rights", Anywhere, "escalate bind deny approve", every, every),
	row("act as a service account", Anywhere, every, "", "serviceaccounts/token"),
	row("act as the user that a certificate names", Anywhere, changes, "certificates.k8s.io", every),
	row("approve certificates", Anywhere, "approve sign attest", "certificates.k8s.io", every),
	row("run commands in pods, or reach what they serve", Anywhere, every, "", "pods/exec", "pods/attach", "pods/portforward", "pods/proxy", "pods/ephemeralcontainers"),
	row("reach what the cluster serves", Anywhere, every, "", "services/proxy", "nodes/proxy"),
	row("run pods, which act as service accounts", Anywhere, writes, "", "pods", "pods/resize", "pods/binding", "bindings", "podtemplates", "replicationcontrollers", "replicationcontrollers/scale"),
	row("run pods, which act as service accounts", Anywhere, writes, "apps", every),
	row("run pods, which act as service accounts", Anywhere, writes, "batch", every),
	row("mount directories of nodes", Anywhere, writes, "", "persistentvolumes"),
	row("read or write secrets", Anywhere, every, "", "secrets"),
	row("change who a service account is", Anywhere, changes, "", "serviceaccounts"),
	row("change what nodes are", Anywhere, changes, "", "nodes", "nodes/status"),
	row("take over labels that admission goes by", Anywhere, changes, "", "namespaces", "namespaces/finalize", "namespaces/status"),
	row("change what every request goes through", Anywhere, changes, "admissionregistration.k8s.io", every),
	row("change what is served", Anywhere, changes, "apiregistration.k8s.io", every),
	row("change what is served", Anywhere, changes, "apiextensions.k8s.io", every),
	row("change who may do what", Anywhere, changes, rbacGroup, every),
	row("change who may do what", Anywhere, changes, policyGroup, "roles", "rolebindings"),
	row("change who may do what", Anywhere, changes, "policy.proviso.dev", every),
	row("change what is recorded", Anywhere, changes, "auditregistration.k8s.io", every),
	row("ask for rights, or approve them", Anywhere, changes, "access.proviso.dev", "accessrules", "accessrequests", "accessrequests/approval", "accessrequests/revocation", "accessrequests/status"),
	row("delete what cannot be read", Anywhere, "unsafe-delete-ignore-read-errors", every, every),
}

func row(why string, where Where, verbs, group string, resources ...string) Row {
	return Row{Why: why, Where: where, Verbs: strings.Fields(verbs), Group: group, Resources: resources}
}

// Rows returns the list.
func Rows() []Row { return rows }

// Of returns what can be done with a request beyond what it names; false if nothing. The subresource may be empty.
func Of(verb, group, resource, subresource string) (why string, powerful bool) {
	if verb == every || group == every || resource == every {
		return "do everything", true // a question, not a request
	}
	if subresource != "" {
		resource += "/" + subresource
	}
	for i := range rows {
		if r := &rows[i]; r.covers(verb, group, resource) {
			return r.Why, true
		}
	}
	return "", false
}

func (r *Row) covers(verb, group, resource string) bool {
	return (r.Group == every || r.Group == group) && covered(r.Resources, resource) && covered(r.Verbs, verb)
}

func covered(list []string, name string) bool {
	for _, entry := range list {
		if prefix, open := strings.CutSuffix(entry, every); open && strings.HasPrefix(name, prefix) || entry == name {
			return true
		}
	}
	return false
}
