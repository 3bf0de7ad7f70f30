package lint

// Severity is how bad it is.
type Severity string

// The severities. An error is a mistake, or gives power to all users; a warning deserves a look; a note is information.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Note    Severity = "note"
)

// Rank orders severities, the worst first.
func (s Severity) Rank() int {
	switch s {
	case Error:
		return 0
	case Warning:
		return 1
	}
	return 2
}

// Code is a kind of remark. Its ID never changes and is never given to another.
type Code struct {
	ID    string
	Name  string // for code-scanning tools
	Title string
	Why   string // what follows if it stays
	Do    string // what to do, in one line
	// Worst is the worst severity that its remarks have.
	Worst Severity
}

// The codes.
const (
	codeBroken      = "PV001"
	codeNoRole      = "PV002"
	codeUnbound     = "PV003"
	codeUnreachable = "PV004"
	codeIdleDeny    = "PV005"
	codeRedundant   = "PV006"
	codeGuarded     = "PV007"
	codeAlways      = "PV008"
	codeNever       = "PV009"
	codeKind        = "PV010"
	codeVerb        = "PV011"
	codePatch       = "PV012"
	codePower       = "PV013"
	codeAccount     = "PV014"
	codeFails       = "PV015"
	codeSink        = "PV016"
	codeNamed       = "PV017"
	codePaths       = "PV018"
	codeLabel       = "PV019"
	codeEnded       = "PV020"
	codeEndless     = "PV021"
	codeFarEnd      = "PV022"
	codeUnserved    = "PV023"
	codeReachable   = "PV024"
	codeFree        = "PV025"
	codeCarried     = "PV026"
	codeEvadable    = "PV027"
	codeShown       = "PV028"
)

// Codes are all of them, in order.
func Codes() []Code {
	return []Code{
		{codeBroken, "rule-does-not-compile", "A rule does not take effect as written",
			"A rule that does not compile is quarantined: an allow grants nothing, a deny denies without its condition. A server refuses to store it.",
			"Correct what the message names.", Error},
		{codeNoRole, "missing-role", "A binding refers to a role that does not exist",
			"The binding has no effect until a role of that name is created, whatever that role then says.",
			"Create the role, correct roleRef, or delete the binding.", Error},
		{codeUnbound, "unbound-role", "Nobody is bound to a role",
			"Its rules decide nothing.",
			"Bind the role, or delete it.", Warning},
		{codeUnreachable, "unreachable-rule", "An allow rule never takes effect",
			"Deny rules refuse everything that the rule allows, to everybody who has it; or it matches nothing that is served.",
			"Delete the rule, or narrow the deny that beats it.", Warning},
		{codeIdleDeny, "deny-without-effect", "A deny rule changes nothing",
			"Everything that it refuses would be refused without it, or is allowed before it is asked: a cluster-wide grant overrides the denies of a namespace. " +
				"Grants through group memberships that are not in the files, through roles of Kubernetes, or by webhooks are not seen.",
			"Delete the rule, or write it where it counts: in the master namespace it comes first.", Warning},
		{codeRedundant, "redundant-rule", "An allow rule changes nothing",
			"Other rules allow the same to the same subjects. Deleting those later does not take the right away.",
			"Delete the rule, or the other one.", Note},
		{codeGuarded, "negation-reaches-guarded-groups", "A negation reaches guarded API groups",
			"All but some is also power over policy, over what is recorded and over the API itself: admission webhooks, CRDs, certificates. A name without a group never reaches these groups; a negation does.",
			"Name the kinds that are meant, or take the guarded groups out as well.", Warning},
		{codeAlways, "condition-always-true", "A condition always holds",
			"The rule means the same without it, and readers think that it narrows something.",
			"Remove the condition, or write what was meant.", Warning},
		{codeNever, "condition-never-true", "A condition never holds",
			"The rule does nothing: an allow grants nothing, a deny refuses nothing.",
			"Correct the condition, or delete the rule.", Error},
		{codeKind, "unknown-kind", "A rule names a kind that is not served",
			"The name matches nothing, and a deny or an exception that is misspelled protects nothing. The kinds are Kubernetes' own and those of the CRDs among the files.",
			"Correct the name or its API group, or give the CRD with --from.", Error},
		{codeVerb, "unknown-verb", "A rule names a verb that no request has",
			"Verbs are compared as they are written: a misspelled one matches nothing.",
			"Correct the verb.", Error},
		{codePatch, "update-and-patch", "A rule treats update and patch differently",
			"Both change the same object. A user who is denied one of them uses the other. In Policy, update covers patch, and patch does not cover update.",
			"Write both, or in Policy update alone.", Error},
		{codePower, "grant-equals-escalation", "A grant gives every right",
			"A user who has it can get what was never granted: by acting as another subject, by reading credentials, or by changing policy.",
			"Narrow it by namespace, name or condition, or bind it to those who are cluster admins anyway.", Error},
		{codeAccount, "act-as-service-account", "A subject can act as a service account that has more rights",
			"A user who runs pods or commands in pods of a namespace, reads its secrets, or may impersonate its service accounts or make their tokens, has their rights.",
			"Move the service account to a separate namespace, or take rights away from it.", Error},
		{codeFails, "condition-can-fail", "A condition fails for some objects",
			"An allow does not hold for an object on which its condition fails. A deny does hold: it refuses an object only because a field is missing.",
			"Ask for the field first: has(resource.spec.x) && …, or resource.spec.?x.orValue(\"\").", Warning},
		{codeSink, "unread-sink", "An audit sink or class has no effect",
			"A sink without a webhook, with a class that does not exist, or with level None everywhere records nothing; a class that no sink refers to selects nothing.",
			"Complete the sink, or delete it.", Warning},
		{codeNamed, "names-with-create", "A rule limits by name what has no name",
			"A request to create or to delete a collection has no name, so a rule with resourceNames never allows it.",
			"Give these verbs a separate rule, without names, or a where about metadata.name.", Warning},
		{codePaths, "paths-in-a-namespace", "A rule about paths stands in a namespace",
			"A request for /metrics has no namespace. Rules about paths take effect in the master namespace and in cluster roles only.",
			"Move the rule to a role of the master namespace, or to a ClusterRole.", Warning},
		{codeLabel, "label-that-no-object-has", "A condition names a label that no object has",
			"A misspelled label does not fail: an allow silently grants nothing, and a deny silently refuses nothing. Checked with --kubeconfig, on the objects of the kinds that the rule names.",
			"Correct the label, or label the objects that are meant.", Warning},
		{codeEnded, "binding-has-ended", "A binding never counts again",
			"It is left over. A reader of the policy sees a right, or a deny, that nobody has any more.",
			"Delete it, or let the server do so with --expired-bindings-ttl.", Warning},
		{codeEndless, "power-without-an-end", "A binding of a powerful role has no end",
			"Other bindings of this policy end, and this one stays for as long as it takes to be forgotten. It gives what is as good as every right. Nothing is said where no binding ends.",
			"Give it notAfter, or let people ask for it with an AccessRule. Leave it if it is for those who have to be able to at all times.", Note},
		{codeFarEnd, "end-far-away", "A binding ends in more than a year",
			"Nobody remembers in a year why it is there, and until then it is as good as permanent.",
			"Choose an end that is nearer, and renew the binding if it is still needed; or leave the end out.", Note},
		{codeUnserved, "class-of-nothing-served", "An audit class selects resources that are not served",
			"Resources are named as they are in URLs: a singular, a kind or another API group selects nothing, and what should be recorded is not. The resources are Kubernetes' own and those of the CRDs among the files.",
			"Correct the resource, subresource, group or scope, or give the CRD with --from.", Warning},
		{codeReachable, "hidden-field-in-reach", "Users from whom a field is hidden can get at it in another way",
			"A field is hidden in what the API server answers. A pod can be made that uses the value, commands run in one that does, its log read, and kubelets asked: these ways do not show the object, and hide nothing.",
			"Take these rights from those from whom the field is hidden, or let them see it.", Note},
		{codeFree, "values-left-free", "A protected attribute leaves other values free",
			"protectedValues protects the values that it lists. With unlistedValues: Free, which is the default, everybody who may write an object can set any other value.",
			"Write unlistedValues: Forbidden, if only the listed values are meant to be used. Leave it if the others mean nothing.", Warning},
		{codeCarried, "value-older-than-its-protection", "An object may have got a value before it was protected",
			"A protection holds for changes. An object that is older than it may have got the value from anybody. Checked with --kubeconfig, on the metadata of objects, not on templates in them.",
			"Look at the objects, and take the value off those that should not have it.", Warning},
		{codeEvadable, "deny-can-be-got-round", "A deny rule can be evaded by its subjects",
			"The rule looks at a label, an annotation or a field of the object, and a subject can change that first: take the label off, then delete.",
			"Protect the label or annotation, make the field exclusive, or deny update as well, also of the subresources that the message names.", Warning},
		{codeShown, "hides-nothing-here", "A permission hides a field beside a stock API server, which shows it",
			"A stock kube-apiserver answers reads from its own storage. A sidecar decides about writes, and sees no answer: readExclusive has no effect. Checked with --kubeconfig, by whether the server serves policy itself.",
			"Take the right to read these objects from those who should not see the field, or run Proviso instead of the kube-apiserver.", Warning},
	}
}

// CodeOf finds a code.
func CodeOf(id string) (Code, bool) {
	for _, c := range Codes() {
		if c.ID == id {
			return c, true
		}
	}
	return Code{}, false
}
